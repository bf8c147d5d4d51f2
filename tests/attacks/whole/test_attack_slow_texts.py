"""Texts made to be slow: whatever scans what a stranger wrote takes time that grows with its length.

Nobody measures how fast that is. A text is built of many small ones that scanners stumble over, at two
lengths; a time that grows with the square of the length is 256 times as long at the second, one that
grows with the length 16 times. What is suspected is measured again and again before it counts.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table

from midstream.app.commands.look_commands import _fenced
from midstream.language.errors import MidstreamError
from midstream.language.templates import compiled
from midstream.models.offline import filled
from midstream.rehearsal.format import without_places
from midstream.safety.command_line import read_command
from midstream.safety.redaction import Redactor, secret_values
from midstream.safety.rules import is_obscure
from midstream.safety.sanitize import sanitized
from midstream.safety.secret_shapes import SHAPES
from midstream.tools.page_text import readable
from midstream.tui.markdown import has_markdown
from midstream.views.calls_in_words import result_words

SHORT, LONG = 1_500, 24_000
TOO_MUCH = 4 * LONG // SHORT
TIMES = 20

OWN = Redactor(secret_values({"A_TOKEN": "ab" * 10, "B_KEY": "correct horse battery"}))

STARTS = sorted({each for shape in SHAPES for each in shape.holds})
CASED = ("AIza", "GOCSPX-", "AKIA", "eyJ", "SG.", "-----BEGIN PRIVATE KEY-----\n", "eyJaaaaaaaaaa.")
TAILS = ("", " ", "='", ":", "-")
BODIES = ("a1b2c3d4", "a" * 24, "A" * 16 + "\n", "=/x1", ':"x1y2z3w4')
SECRETS = [
    *(start + tail for start in (*STARTS, *CASED) for tail in TAILS),
    *(start + body for start in ("pwd", "sk-", "token=", *CASED) for body in BODIES),
    *("ab", "a", "c", "correct horse ", "s", "\\", "[redacted: ", "İ", "é", "://a:", "://:a1b@"),
]
MARKS = [
    *(
        "\n",
        " \n",
        " ",
        "\t",
        "#",
        "*",
        "_",
        "`",
        "```\n",
        "```a\n",
        "~~~\n",
        "````\n```\n",
        "|",
        "[",
    ),
    *(
        "[1 match",
        "[the first 1",
        "${",
        "${a",
        "${a?",
        "$${",
        "{",
        "}",
        "(",
        "((",
        "(a.py:",
        " (/a",
    ),
    *("== a ", "== ==\n", "1", "1\t", "1. ", "- ", "Stopped after ", "\x1b[", "\x1b]", "\u0301"),
    *(
        "a\u0301",
        "\u200d",
        "👍\u200d",
        "\ufe0f",
        "'",
        '"',
        "\\",
        "a b ",
        "$(",
        "a=b ",
        "eval ",
        "~",
    ),
]
TAGS = [
    *('<a "', "<a '>", "<!--", "<!", "<", "</", "<pre>", "<ul><li>", "<td>", "<tr><td>", "</a>"),
    *(
        "<a href=x>",
        "<code>",
        "<h1>",
        "&#",
        "&amp",
        "<script>",
        "<title>",
        "href=",
        "<a href='a",
        "<img alt=a>",
    ),
]


def _streamed(text: str) -> None:
    sliding = OWN.sliding()
    for at in range(0, len(text), 50):
        sliding.fed(text[at : at + 50])
    sliding.rest()


def _compiled(text: str) -> None:
    with suppress(MidstreamError, ValueError):
        compiled(text)


SCANNERS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "secrets taken out of a text": (OWN.redacted, SECRETS),
    "secrets taken out of a stream": (_streamed, SECRETS[::9]),
    "the sanitizer": (sanitized, MARKS),
    "whether a reply has marks": (has_markdown, MARKS),
    "blocks of code to copy": (lambda text: list(_fenced(text)), MARKS),
    "a result in a few words": (
        lambda text: result_words("exact_search", "completed", text),
        MARKS,
    ),
    "a command's result in a few words": (
        lambda text: result_words("execute_terminal", "completed", text),
        MARKS,
    ),
    "files' results in a few words": (
        lambda text: result_words("read_files", "completed", text),
        MARKS,
    ),
    "a page of the web": (lambda text: readable(text, "https://example.org/"), [*MARKS, *TAGS]),
    "a template": (_compiled, MARKS),
    "a template of the offline model": (lambda text: filled(text, {}), MARKS),
    "a command": (read_command, MARKS),
    "whether a line is obscure": (is_obscure, MARKS),
    "a failure without its places": (without_places, MARKS),
}


def _of(unit: str, size: int, before: str) -> str:
    return before + (unit * (size // len(unit) + 1))[:size]


def _seconds(scan: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    scan(text)
    return time.thread_time() - start


def _grows(scan: Callable[[str], object], unit: str, before: str) -> bool:
    """Return whether the long text takes too many times as long, as often as it is measured.

    What disturbs a measurement makes it longer: the shortest of each counts, and one that is short
    enough ends the suspicion.
    """
    short = long = float("inf")
    for _ in range(TIMES):
        short = min(short, _seconds(scan, _of(unit, SHORT, before)))
        long = min(long, _seconds(scan, _of(unit, LONG, before)))
        if long / max(short, 1e-4) < TOO_MUCH:
            return False
    return True


@table("scanner", SCANNERS)
def test_no_text_is_slow(scanner: str) -> None:
    scan, units = SCANNERS[scanner]
    slow = []
    for unit in units:
        for before in ("", unit[0]):
            if _grows(scan, unit, before):
                slow.append((before, unit))

    assert not slow


UNITS = st.lists(
    st.sampled_from([*SECRETS, *MARKS, "1", "B", "x.y1", "pwd=", "a1:"]), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(UNITS.map("".join), st.sampled_from(["", "a", "token='", "://a:", "eyJ", "sk-"]))
def test_no_text_is_slow_to_redact(unit: str, before: str) -> None:
    for scan in (OWN.redacted, _streamed):
        assert not _grows(scan, unit, before)
