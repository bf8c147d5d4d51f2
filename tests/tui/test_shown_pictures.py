"""Pictures a person shows: a dropped file's path, and what programs say of the clipboard."""

import base64

import pytest
from support.pictures import png

from midstream.app.shown_pictures import dropped, unpacked


@pytest.mark.parametrize(
    ("pasted", "path"),
    [
        ("/home/me/shot.png", "/home/me/shot.png"),
        ("/home/me/my\\ shot\\(1\\).png ", "/home/me/my shot(1).png"),
        ("'/home/me/my shot.png'", "/home/me/my shot.png"),
        ("'/home/me/it'\\''s.png'", "/home/me/it's.png"),
        ('"/home/me/my shot.png"\n', "/home/me/my shot.png"),
        ("file:///home/me/my%20shot.png", "/home/me/my shot.png"),
        ("file://localhost/a.png", "/a.png"),
        ("shot.png", ""),
        ("/a.png\n/b.png", ""),
        ("file:///a%00b.png", ""),
        ("/" + "x" * 5000, ""),
        ("'", ""),
        ("", ""),
    ],
)
def test_a_dropped_file_is_one_absolute_path(pasted: str, path: str) -> None:
    assert dropped(pasted) == path


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(png(), id="as it is"),
        pytest.param(
            b"\xc2\xabdata PNGf" + png().hex().upper().encode() + b"\xc2\xbb\n",
            id="as AppleScript writes it",
        ),
        pytest.param(base64.b64encode(png()) + b"\r\n", id="in base64"),
    ],
)
def test_a_picture_is_read_in_whatever_form_a_program_prints_it(said: bytes) -> None:
    assert unpacked(said) == png()


@pytest.mark.parametrize("said", [b"", b"words", b"AAAA", b"\xabdata PNGfzz\xbb", b"<html>"])
def test_what_is_no_picture_is_none(said: bytes) -> None:
    assert unpacked(said) == b""
