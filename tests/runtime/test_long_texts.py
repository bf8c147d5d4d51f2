"""A long text is made readable as a short one is, only in pieces."""

import pytest

from midstream.runtime import text_limits
from midstream.runtime.text_limits import PIECE, long_text
from midstream.runtime.user_words import readable

TEXTS = {
    "plain": "abc" * PIECE,
    "wide": "ü€😀" * PIECE,
    "hostile": "a\0\ud800b\udc00" * PIECE,
    "halves at every place": "\ud83d\ude00" * (PIECE + 1),
    "halves out of step": "x" + "\ud83d\ude00" * PIECE,
    "high halves only": "\ud800" * (PIECE + 5) + "\udc00",
    "exactly a piece": "a" * PIECE,
    "ends in half": "a" * (PIECE - 1) + "\ud83d",
    "one": "ä",
    "empty": "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("max_end", [1, 100, PIECE, 10 * PIECE])
def test_pieces_make_the_same_text(text: str, max_end: int) -> None:
    whole = readable(text)
    long = long_text(text, max_end)

    assert long.whole.decode() == whole
    assert long.length == len(whole)
    assert long.start == whole[:max_end]
    assert long.end == whole[-max_end:]


def test_no_piece_is_much_longer_than_the_loop_can_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []

    def seen(text: str) -> str:
        lengths.append(len(text))
        return readable(text)

    monkeypatch.setattr(text_limits, "readable", seen)
    for text in ("a\0" * 10 * PIECE, "\ud83d\ude00" * 10 * PIECE, "\ud83d" * 10 * PIECE):
        long_text(text, 1)

    assert max(lengths) <= PIECE + 1
