"""read_image: the model sees a picture of the workspace, told by its bytes."""

from pathlib import Path

import pytest
from support.pictures import claims, gif, jpeg, png, webp
from toolbench import Bench

from midstream.core.pictures import MAX_BYTES, MAX_SIDE


@pytest.mark.parametrize(
    ("media", "data"),
    [
        ("image/png", png(40, 30)),
        ("image/jpeg", jpeg(40, 30)),
        ("image/gif", gif(40, 30)),
        ("image/webp", webp(40, 30)),
    ],
)
async def test_a_picture_is_what_its_bytes_say_whatever_it_is_called(
    tmp_path: Path, media: str, data: bytes
) -> None:
    (tmp_path / "notes.txt").write_bytes(data)

    ended = await Bench(tmp_path).call("read_image", path="notes.txt")

    assert ended.outcome == "completed"
    assert ended.text == f"notes.txt: {media}, 40 x 30 pixels, {len(data):,} bytes."
    assert ended.pictures == {"notes.txt": data}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"#!/bin/sh\nrm -rf /\n", "is no picture", id="a script"),
        pytest.param(b"<svg onload='x()'/>", "is no picture", id="an SVG"),
        pytest.param(b"RIFF\4\0\0\0WAVEfmt ", "is no picture", id="a sound"),
        pytest.param(b"", "is no picture", id="nothing"),
        pytest.param(png(40, 30)[:-9], "is damaged", id="a PNG without its end"),
        pytest.param(png(40, 30)[:20], "is damaged", id="a PNG cut in its head"),
        pytest.param(jpeg(40, 30)[:-2], "is damaged", id="a JPEG without its end"),
        pytest.param(b"\xff\xd8\xff", "is damaged", id="the beginning of a JPEG"),
        pytest.param(b"\xff\xd8\xff" + b"\0" * 5000, "is damaged", id="a JPEG of zeros"),
        pytest.param(gif(40, 30)[:-1], "is damaged", id="a GIF without its end"),
        pytest.param(webp(40, 30)[:-2], "is damaged", id="a WebP cut off"),
        pytest.param(claims(0, 30), "is damaged", id="a PNG of no width"),
        pytest.param(claims(2**31 - 1, 2**31 - 1), "2,147,483,647 pixels", id="a bomb"),
        pytest.param(claims(MAX_SIDE + 1, 1), "8,001 x 1 pixels", id="a line too wide"),
        pytest.param(png() + b"\0" * MAX_BYTES, "bytes; the limit is", id="too many bytes"),
    ],
)
async def test_what_cannot_be_shown_is_refused_with_its_reason(
    tmp_path: Path, data: bytes, why: str
) -> None:
    (tmp_path / "shot.png").write_bytes(data)

    ended = await Bench(tmp_path).call("read_image", path="shot.png")

    assert ended.outcome == "failed"
    assert why in ended.text
    assert not ended.pictures


async def test_the_model_is_told_where_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    bench = Bench(tmp_path)

    assert "There is no file" in await bench.failure("read_image", path="none.png")
    assert "is a folder" in await bench.failure("read_image", path="folder")
