"""read_files on a PDF: the text of its pages, read where a hostile one can be ended."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.pdfs import of_contents, pdf
from toolbench import Bench

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.tools import pdf_text

_PAGE = b"BT /F1 12 Tf (x) Tj ET "


async def test_the_text_of_a_pdf_stands_page_by_page_with_numbered_lines(tmp_path: Path) -> None:
    (tmp_path / "spec.pdf").write_bytes(pdf("The first page\nsays this.", "The second.", ""))
    bench = Bench(tmp_path)

    text = await bench.text("read_files", paths=["spec.pdf"])

    lines = [line.partition("\t")[2] or line.strip() for line in text.splitlines()]
    for wanted in ("--- page 1 of 3 ---", "says this.", "--- page 2 of 3 ---", "The second."):
        assert any(wanted in line for line in lines), text
    assert "[no text on this page: it may be a picture]" in text
    part = await bench.text("read_files", paths=["spec.pdf:4-5"])
    assert "The second." in part
    assert "says this." not in part


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"%PDF-1.7\n", "cannot be read as a PDF", id="nothing behind its head"),
        pytest.param(b"%PDF-1.7\n" + b"\xff\0" * 4000, "cannot be read as a PDF", id="noise"),
        pytest.param(pdf("x")[:200], "cannot be read as a PDF", id="cut off"),
        pytest.param(
            pdf("x", trailer="/Encrypt<</Filter/Standard/V 9/R 9>>"),
            "cannot be read as a PDF",
            id="encrypted in a way nobody knows",
        ),
    ],
)
async def test_what_is_none_is_said_so(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "spec.pdf").write_bytes(data)

    assert why in await Bench(tmp_path).failure("read_files", paths=["spec.pdf"])


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(lambda: pdf("x", kids="2 0 R"), id="pages that hold themselves"),
        pytest.param(
            lambda: pdf(*["x"] * 3, kids="4 0 R " * 90_000), id="the same page again and again"
        ),
        pytest.param(lambda: of_contents([_PAGE + b" " * 400_000_000]), id="a bomb"),
        pytest.param(lambda: of_contents([b"[" * 300_000]), id="lists within lists"),
        pytest.param(lambda: of_contents([b"q " * 2_000_000]), id="states never given back"),
    ],
)
async def test_a_hostile_one_ends_and_takes_nothing_with_it(
    tmp_path: Path, hostile: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_text, "TIMEOUT_S", 10.0)
    (tmp_path / "spec.pdf").write_bytes(hostile())

    ended = await Bench(tmp_path).call("read_files", paths=["spec.pdf"])

    assert ended.outcome in ("completed", "failed")
    assert len(ended.text) < 200_000


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_text, "find_spec", lambda name: None)

    with pytest.raises(UserMistake, match="needed that is not installed") as caught:
        pdf_text.text_of(pdf("x"), "spec.pdf")

    assert caught.value.hint == "Run: pip install 'midstream[pdf]'"


def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_text, "TIMEOUT_S", 0.01)

    with pytest.raises(WorldTrouble, match="took longer than"):
        pdf_text.text_of(pdf("x"), "spec.pdf")
