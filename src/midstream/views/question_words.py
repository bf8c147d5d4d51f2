"""Questions on one line: who asks, and what about. Pure; the console and its session show the same."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from midstream.core.events import QuestionAsked
from midstream.core.question import Question
from midstream.views.call_results import beginning

SUMMARY_CHARS: Final = 160


def question_heading(question: Question | QuestionAsked) -> str:
    """Return who asks what, such as `#2 ada asks`, or `#2 ada wants to change calc.py  +2 -0`."""
    number = f"#{question.number} " if question.number else ""
    who = question.agent or "the workflow"
    if question.branch:
        who = f"{question.branch} ▌ {who}"
    if question.kind != "approval":
        return f"{number}{who} asks"
    if (head := head_of_diff(question.text)) is None:
        return f"{number}{who} wants to run"
    lines = question.text.split("\n")
    verb = "create" if lines[head] == _NO_FILE else "change"
    what = lines[head + 1].removeprefix("+++ ")
    return f"{number}{who} wants to {verb} {what}{_figures(lines[head + 2 :])}"


_NO_FILE: Final = "--- /dev/null"
_WRITERS: Final = ("write_file", "edit_file")


def head_of_diff(text: str) -> int | None:
    """Return which line of an approval is the first of a difference's head, None where there is none.

    Only of our own tools that write files: what another one shows may hold anything. Before it stand
    the tool's name and sentences about the file.
    """
    lines = text.split("\n")
    if lines[0] not in _WRITERS:
        return None
    for number, (line, after) in enumerate(pairwise(lines)):
        if after.startswith("+++ ") and line in (_NO_FILE, f"--- {after[4:]}"):
            return number
    return None


def _figures(lines: Sequence[str]) -> str:
    """Return how many lines come and go, "" where the difference does not show them all."""
    if any(line.startswith("[+") for line in lines) or not any(
        line.startswith("@@ ") for line in lines
    ):
        return ""
    added = sum(line.startswith("+") for line in lines)
    return f"  +{added} -{sum(line.startswith('-') for line in lines)}"


def shortened(text: str, limit: int = SUMMARY_CHARS) -> str:
    """Return a text of at most so many characters, with `…` where it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def result_summary(text: str, limit: int = SUMMARY_CHARS) -> str:
    """Return a text's beginning on one line; what is left out is counted."""
    return beginning(text, limit)


def question_summary(question: Question | QuestionAsked) -> str:
    """Return a question on one line; of an approval the tool and its command, or the file it changes."""
    if question.kind != "approval":
        return result_summary(question.text)
    tool, *rest = question.text.split("\n")
    about = [line[4:] for line in rest if line.startswith("+++ ")]
    about += [line for line in rest if line.startswith("$ ") or len(rest) == 1]
    return shortened(f"{tool} {about[0]}") if about else result_summary(question.text)
