"""The text of a command of one's own, with what was typed behind its name put in. Pure.

`$ARGUMENTS` is all of it, `$1` to `$9` are its words; two words in quotes are one. A text that asks for
neither has them below it.
"""

import re
from typing import Final

_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?![0-9]))")
_WORD: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")


def filled(text: str, typed: str) -> str:
    """Return the text with what was typed in its places. What is put in is not looked through again."""
    typed = typed.strip()
    words = [next(filter(None, found), "") for found in _WORD.findall(typed)]
    if not _PLACE.search(text):
        return f"{text.rstrip()}\n\n{typed}" if typed else text.rstrip()

    def put(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return typed
        number = int(place[1])
        return words[number - 1] if number <= len(words) else ""

    return _PLACE.sub(put, text).rstrip()
