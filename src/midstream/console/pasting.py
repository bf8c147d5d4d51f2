"""Long pastes, folded: the editor holds a short label, the text comes back when the line is sent."""

import re
from typing import Final

_FOLD_CHARS: Final = 2000
_FOLD_LINES: Final = 20
_LABEL: Final = re.compile(r"\[pasted \d+ (?:lines|characters) #\d+\]")


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
        number = len(self._texts) + 1
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        label = f"[pasted {size} #{number}]"
        self._texts[label] = text
        return label

    def unfolded(self, text: str) -> str:
        """Return the text with every label's own text in its place."""
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def label_before(self, text: str) -> str:
        """Return the label the text ends with, "" if none: one key deletes it whole."""
        return next((label for label in self._texts if text.endswith(label)), "")
