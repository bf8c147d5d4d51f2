"""Long pastes, folded: the editor holds a short label, the text comes back when the line is sent."""

import re
from typing import Final

_FOLD_CHARS: Final = 2000
_FOLD_LINES: Final = 20
_LABEL: Final = re.compile(r"\[((?:pasted|output) \d+ (?:lines?|characters)) #\d+\]")


class Pastes:
    """What was pasted in this session and stands in the editor, or the history, as a label."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return the text itself, or a label for it when it is long."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if len(text) <= _FOLD_CHARS and lines <= _FOLD_LINES:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return self.kept(text, f"pasted {size}")

    def kept(self, text: str, what: str) -> str:
        """Return a label for a text: what it is, as `pasted 214 lines` or `output 3 lines`."""
        label = f"[{what} #{len(self._texts) + 1}]"
        self._texts[label] = text
        return label

    def unfolded(self, text: str) -> str:
        """Return the text with every label's own text in its place."""
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def told_later(self, text: str, *, most: int) -> str:
        """Return the text as a later session may have it, where no label stands for anything.

        Whole, or, where it has more than `most` characters, with words that say what was there.
        """
        whole = self.unfolded(text)
        if len(whole) <= most:
            return whole
        return _LABEL.sub(
            lambda found: f"({found[1]}, not kept)" if found[0] in self._texts else found[0], text
        )

    def label_at(self, text: str, position: int) -> tuple[int, int] | None:
        """Return where the label at a position begins and ends, else the only one of the text."""
        found = [each.span() for each in _LABEL.finditer(text) if each[0] in self._texts]
        around = [span for span in found if span[0] <= position <= span[1]]
        return around[0] if around else found[0] if len(found) == 1 else None

    def label_before(self, text: str) -> str:
        """Return the label the text ends with, "" if none: one key deletes it whole."""
        return next((label for label in self._texts if text.endswith(label)), "")
