"""The sanitizer and redaction: what a text costs on its way to the screen and the journal.

The floor of the sanitizer is one search through the text for a character class, which is the least
that looking at each character can cost in Python. Its aim is 50 MB of plain text a second: 20 ms a
megabyte. That is the aim of redaction, too, where there is next to nothing to take out. Beside it
stands what a text costs that is all but secrets, and one that is nothing else.
"""

import re
from time import perf_counter

from benchmarks.measuring import Figure, in_turn
from midstream.safety.redaction import PIECE, Redactor, secret_values
from midstream.safety.sanitize import sanitized

AIM_MS_PER_MB = 20.0
FLOOR = "one search for a character class"

_CLASS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PLAIN = "The run goes on in the background, and a line typed now is not lost.\n"
_CODE = (
    'def stop(self, reason: str = "stopped") -> None:\n    """End it."""\n    self._run = reason\n'
)
_ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz",
    "ANTHROPIC_API_KEY": "sk-ant-api03-0123456789abcdefghijklmnopqrst",
    "GITHUB_TOKEN": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
}


def ours(text: str) -> float:
    """Return the milliseconds a megabyte takes through the sanitizer."""
    began = perf_counter()
    sanitized(text)
    return (perf_counter() - began) * 1000 / (len(text) / 1e6)


def floor(text: str) -> float:
    """Return the milliseconds a megabyte takes to be searched."""
    began = perf_counter()
    _CLASS.search(text)
    return (perf_counter() - began) * 1000 / (len(text) / 1e6)


def hostile(text: str) -> float:
    """Return the milliseconds a megabyte takes of which every fourth character is a control."""
    return ours(text)


def piece(redactor: Redactor, text: str) -> float:
    """Return the milliseconds one piece takes through redaction."""
    began = perf_counter()
    redactor.redacted(text)
    return (perf_counter() - began) * 1000


def a_megabyte(redactor: Redactor, text: str) -> float:
    """Return the milliseconds a megabyte takes through redaction."""
    return piece(redactor, text) / (len(text) / 1e6)


def delta(redactor: Redactor, words: list[str]) -> float:
    """Return the milliseconds a thousand words take that stream in."""
    sliding = redactor.sliding()
    began = perf_counter()
    for word in words:
        sliding.fed(word)
    return (perf_counter() - began) * 1000 / len(words) * 1000


def measure(quick: bool) -> list[Figure]:
    """Return what both cost."""
    size = 200_000 if quick else 5_000_000
    rounds = 3 if quick else 11
    plain = (_PLAIN * (size // len(_PLAIN) + 1))[:size]
    redactor = Redactor(secret_values(_ENVIRONMENT))
    code = (_CODE * (PIECE // len(_CODE) + 1))[:PIECE]
    words = [f"{word} " for word in (_PLAIN * 50).split()]
    nasty = "ab\x1b[" * (size // 80)
    much_code = (_CODE * (size // 5 // len(_CODE) + 1))[: size // 5]
    begun = "password = '; sk-; token: " * (size // 130)
    near = "password = foo.bar1.baz2\n" * (size // 250)
    secret = "password = 'hunter2secret'\n" * (size // 270)
    own, least, worst, pieces, deltas, codes, begins, nears, secrets = in_turn(
        rounds,
        lambda: ours(plain),
        lambda: floor(plain),
        lambda: hostile(nasty),
        lambda: piece(redactor, code),
        lambda: delta(redactor, words),
        lambda: a_megabyte(redactor, much_code),
        lambda: a_megabyte(redactor, begun),
        lambda: a_megabyte(redactor, near),
        lambda: a_megabyte(redactor, secret),
    )
    return [
        Figure(
            name="sanitizing a megabyte of plain text",
            unit="ms",
            values=own,
            floor=FLOOR,
            floors=least,
            aim=AIM_MS_PER_MB,
            aim_on="value",
        ),
        Figure(name="sanitizing a megabyte full of controls", unit="ms", values=worst),
        Figure(name=f"redacting {PIECE:,} characters of code", unit="ms", values=pieces),
        Figure(
            name="redacting a megabyte of code",
            unit="ms",
            values=codes,
            aim=AIM_MS_PER_MB,
            aim_on="value",
        ),
        Figure(
            name="redacting a megabyte of beginnings of secrets",
            unit="ms",
            values=begins,
            aim=AIM_MS_PER_MB,
            aim_on="value",
        ),
        Figure(name="redacting a megabyte of what is just no secret", unit="ms", values=nears),
        Figure(name="redacting a megabyte of nothing but secrets", unit="ms", values=secrets),
        Figure(name="redacting a thousand words as they stream", unit="ms", values=deltas),
    ]
