"""Painting: what happened, as styled lines. Pure; the terminal and the plain UI show the same.

Each of our lines begins with a mark. Lines without one belong to the marked line above them, and
nothing anybody else wrote begins like one (`styled_lines.may_begin`):

    ›  what the person typed          ▌  who speaks, in its colour
    →  the run moved on               ✓ ✗ ■  how something ended
    ·  the console's own words        !  a warning
    ?  a question                     ⏹  an interruption
    ┆  output of the person's own command, of which no agent knows

What happens in a branch has its name behind the mark, and a second bar:

    ▌ tests ▌ dude                    ✓ tests ▌ finished

So a reply is its speaker's line and then the words, from the first column on, to be copied as they are.
"""

import re
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.conversation import cut_words
from midstream.core.question import Question
from midstream.core.run_data import as_text
from midstream.language.forms import example, fields
from midstream.language.names import JOIN_WORKTREE, Json
from midstream.tui.styled_lines import Fragment, Line, agent_style, lines_of
from midstream.tui.themes import ACCENT, ATTENTION, BOLD, FAILED, MUTED
from midstream.views.calls_in_words import (
    head_of_diff,
    question_heading,
    question_summary,
)
from midstream.views.cells import clipped, shortened, width_of

Kind: TypeAlias = Literal["info", "note", "warning", "error"]

SPEAKER: Final = "▌ "
RESULT_MARK: Final = "  ┊ "
_LABEL_CELLS: Final = 28
_FIELDS: Final = 12


class Words(msgspec.Struct, frozen=True):
    """Text to be shown as markdown, where the UI can; else as plain lines.

    `is_verbatim`: it is no markdown, but what a tool returned or a model thought, dim as a whole and
    behind a bar.
    """

    text: str
    is_verbatim: bool = False


Block: TypeAlias = Line | Words


def plain_words(words: Words) -> list[Line]:
    """Return words as they were written."""
    if words.is_verbatim:
        return lines_of(
            words.text, style=MUTED, mark=RESULT_MARK, mark_style=MUTED, rest=RESULT_MARK
        )
    return lines_of(words.text)


def branch_label(branch: str) -> tuple[Fragment, ...]:
    """Return what stands before all that happens in a branch; nothing for the run itself."""
    if not branch:
        return ()
    style = speech_style("", branch)
    return ((BOLD, clipped(branch, _LABEL_CELLS)), (style, " ▌ "))


def labelled(branch: str, lines: list[Line]) -> list[Line]:
    """Return lines with the branch they are about before the first."""
    if not branch or not lines:
        return lines
    first = msgspec.structs.replace(
        lines[0], fragments=(*branch_label(branch), *lines[0].fragments)
    )
    return [first, *lines[1:]]


def own_words(text: str, kind: Kind) -> list[Line]:
    """Return the console's own words."""
    mark, style, text_style = {
        "info": ("· ", ACCENT, ""),
        "note": ("· ", MUTED, MUTED),
        "warning": ("! ", ATTENTION, ""),
        "error": ("✗ ", FAILED, ""),
    }[kind]
    return lines_of(text, style=text_style, mark=mark, mark_style=style)


def typed(text: str) -> list[Line]:
    """Return the echo of a line the person sent."""
    return lines_of(text, style=BOLD, mark="› ", mark_style=ACCENT)


def speech_style(agent: str, branch: str) -> str:
    """Return the colour of an agent's words: a branch has its own, whoever speaks there.

    What stands behind a branch's name, such as its item, does not change it.
    """
    return agent_style(branch.partition(" ")[0] or agent)


def speech(
    agent: str, text: str, *, branch: str = "", is_interrupted: bool = False, calling: str = ""
) -> list[Block]:
    """Return an agent's words under its name; where they were cut off a line of ours says so."""
    style = speech_style(agent, branch)
    blocks: list[Block] = [speaker(agent, branch)]
    if text.strip():
        blocks.append(Words(text.rstrip().strip("\n")))
    if is_interrupted:
        blocks.append(Line(((ATTENTION, f"[{cut_words(calling)}]"),), SPEAKER, style))
    return blocks


_NUMBERED = re.compile(r"-\d+$")
"""What tells the second branch of one name from the first."""


def speaker(agent: str, branch: str = "") -> Line:
    """Return the line that says who speaks. A branch that is called what its agent is says it once."""
    style = speech_style(agent, branch)
    if _NUMBERED.sub("", branch.rpartition("/")[2]) == agent:
        return Line(((BOLD, clipped(branch, _LABEL_CELLS)),), SPEAKER, style)
    return Line((*branch_label(branch), (BOLD, agent)), SPEAKER, style)


def result_in_full(text: str) -> Words:
    """Return a tool's result, or a model's reasoning, as it is, behind a bar of its own."""
    return Words(text.rstrip("\n"), is_verbatim=True)


def question_lines(question: Question | e.QuestionAsked) -> list[Line]:
    """Return a question whole: every byte of an approval, every choice by its number."""
    style = ATTENTION if question.kind == "approval" else ACCENT
    if question.about == "plan":
        return _plan_lines(question, style)
    found = [Line(((BOLD, question_heading(question)),), "? ", style, "│ ")]
    # "\r\n" would pass as the end of a line: a change of line ends would look like none.
    text = question.text.replace("\r\n", "\u240d\n")
    head = head_of_diff(text) if question.kind == "approval" else None
    if head is not None:
        # Which tool it is, and the name of the file, stand in the line above.
        lines = text.split("\n")
        text = "\n".join((*lines[1:head], *lines[head + 2 :]))
    elif question.kind == "approval" and text.startswith(f"{JOIN_WORKTREE}\n"):
        # What is merged stands in the line above.
        text = "\n".join(text.split("\n")[2:])
    found += lines_of(text, mark="│ ", mark_style=style, rest="│ ")
    if question.why:
        found += _behind_bar(question.why, style)
    for number, choice in enumerate(question.choices, 1):
        found += lines_of(
            choice, mark=f"│ {number} ", mark_style=style, rest="│ " + " " * (len(str(number)) + 1)
        )
    return found + [line for text in _form(question) for line in _behind_bar(text, style)]


def _plan_lines(question: Question | e.QuestionAsked, style: str) -> list[Line]:
    """Return a plan: its title in the heading, a step a line.

    What of a line goes on below stands further in: nothing of a plan begins where the keys do.
    """
    title, *steps = question.text.split("\n")[1:] or [""]
    heading = ((BOLD, f"{question_heading(question)}: "), ("", title))
    return [
        Line(heading, "? ", style, "│    "),
        *(Line((("", step),), "│ ", style, "│    ") for step in steps),
    ]


def _form(question: Question | e.QuestionAsked) -> list[str]:
    """Return what a question with a schema wants to be told, and how that is written."""
    asked = fields(question.schema)
    if not asked:
        kind = (question.schema or {}).get("type", "string")
        return [] if kind == "string" else [f"as JSON: {kind}"]
    names = [clipped(field.name, _LABEL_CELLS) for field in asked[:_FIELDS]]
    wide = max(map(width_of, names))
    rows = [
        f"{name}{' ' * (wide - width_of(name))}  {shortened(field.wants)}"
        + ("" if field.is_required else "  (may be left out)")
        for name, field in zip(names, asked, strict=False)
    ]
    if len(asked) > _FIELDS:
        rows.append(f"+{len(asked) - _FIELDS} more")
    return [*rows, f"Write {example(asked)}, or JSON."]


def _behind_bar(text: str, style: str) -> list[Line]:
    return lines_of(text, style=MUTED, mark="│ ", mark_style=style, rest="│ ")


def answer_line(
    question: Question | e.QuestionAsked | None, question_id: str, answer: Json
) -> Line:
    """Return a closed question with its answer, on one line."""
    if question is None:
        what = question_id
    else:
        number = f"#{question.number} " if question.number else ""
        what = number + question_summary(question)
    text = as_text(answer)
    is_refused = question is not None and question.kind == "approval" and text == "no"
    mark, style = ("✗ ", FAILED) if is_refused else ("✓ ", ACCENT)
    return Line((("", what), (BOLD, f"  {shortened(text)}")), mark, style)
