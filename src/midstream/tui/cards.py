"""The cards of open questions: how one is shown, what decides on it, and its list or form. Pure.

What does not fit is left out around the place that matters, and counted.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from midstream.core.question import Question
from midstream.language.forms import Field, example, fields
from midstream.safety.capability import SHOWN
from midstream.safety.sanitize import on_one_line, sanitized
from midstream.tui.choice_list import Choosing, choices_in
from midstream.tui.event_lines import question_lines
from midstream.tui.form import Form
from midstream.tui.keymap import called
from midstream.tui.styled_lines import Fragment, Line, Row, one_row, rows
from midstream.tui.themes import ACCENT, ATTENTION, BOLD, MUTED, OK
from midstream.views.calls_in_words import question_heading
from midstream.views.cells import clipped, width_of


class Choice(msgspec.Struct, frozen=True):
    """What a key decides: its letter, the action whose key makes it, what its card and Enter say of it."""

    letter: str
    action: str
    says: str
    enter: str = ""


_NO: Final = (
    Choice("n", "deny", "no", "says no"),
    Choice("w", "deny_with_note", "no, and say why", "says no, and asks why"),
)
OF_A_CALL: Final = (
    Choice("y", "allow", "once", "says yes, once"),
    Choice("r", "allow_for_run", "for this run", "says yes, for this run"),
    *_NO,
    Choice("e", "change_command", "edit", "changes the command first"),
)
OF_A_PLAN: Final = (
    Choice("y", "allow", "yes, in ask", "approves it, in ask"),
    Choice("a", "allow_in_auto", "yes, in auto", "approves it, in auto"),
    Choice("e", "change_command", "change it", "changes it first"),
    *_NO,
)
OF_A_LINE: Final = (
    Choice("a", "is_answer", "answer"),
    Choice("n", "is_instruction", "new instruction"),
    Choice("e", "keep_editing", "keep editing"),
)
"""What an unclear line may be."""

_NAMED: Final = 4
"""Capabilities a yes for the run would grant that stand behind its key."""

_NAMED_CELLS: Final = 60

_BETWEEN: Final = " · "
_MARK: Final = "▸"


def card_rows(question: Question, *, is_focused: bool, height: int, width: int) -> list[Row]:
    """Return a card of at most `height` rows. What does not fit is counted, never just missing."""
    lines = question_lines(question)
    all_rows = [row for line in lines for row in rows(line, width)]
    style = ATTENTION if question.kind == "approval" else ACCENT
    if is_focused and all_rows:
        mark: list[Fragment] = [(style, "▸ ")]
        all_rows[0] = [*mark, *all_rows[0][1:]] if width > 5 else all_rows[0]
    if len(all_rows) <= height:
        return all_rows
    kept = all_rows[: max(1, height - 1)]
    left_out = len(all_rows) - len(kept)
    if not is_focused and height <= 2:
        # What it is about matters more than who asks.
        summary = clipped(sanitized(summary_of(question, width)), max(4, width - 2))
        kept = rows(Line((("", summary),), "? ", style), width)[:1]
        left_out -= 1
    where = "in full above" if is_focused else called("next_question") or "#2"
    text = f"+{left_out} more line{'' if left_out == 1 else 's'}, {where}"
    more = Line(((MUTED, text),), "│ ", style)
    return [*kept, rows(more, width)[0]] if height > 1 else kept


def unclear_keys() -> str:
    """Return the keys that say what an unclear line is."""
    keys = ((called(choice.action), choice.says) for choice in OF_A_LINE)
    return _BETWEEN.join(f"{key} {says}" for key, says in keys if key)


def choices_for(approval: Question) -> tuple[Choice, ...]:
    """Return the choices of an approval, in their order."""
    if approval.about == "plan":
        return OF_A_PLAN
    return OF_A_CALL if approval.command else OF_A_CALL[:-1]


def approval_keys(question: Question, marked: str = "") -> str:
    """Return the keys that decide on an approval, and what a yes for the run would grant.

    Before the `marked` choice stands a mark, which nothing foreign may show.
    """
    keys = []
    for choice in choices_for(question):
        mark = f"{_MARK} " if choice.letter == marked else ""
        grants = _granted(question) if choice.action == "allow_for_run" else ""
        keys.append(f"{mark}{called(choice.action)} {choice.says}{grants}")
    return _BETWEEN.join((*keys, "arrows mark one"))


def _granted(question: Question) -> str:
    from midstream.safety.rules import in_words  # no rule matters before the first prompt

    granted = [ask for ask in question.asks if not ask.startswith(SHOWN)]
    # The shortest first: a long command stands above anyway, a host beside it might be overlooked.
    named = [
        clipped(sanitized(in_words(ask)).replace(_MARK, "?"), _NAMED_CELLS)
        for ask in sorted(granted, key=len)[:_NAMED]
    ]
    more = [f"{len(granted) - _NAMED} more"] if len(granted) > _NAMED else []
    return f" ({'; '.join(named + more)})" if named else ""


def approval_waits(question: Question) -> str:
    """Return what is said of the keys while something stands in the line."""
    actions = (choice.action for choice in choices_for(question) if choice.letter != "e")
    return f"empty the line to decide: {_BETWEEN.join(filter(None, map(called, actions)))}"


def enter_takes(question: Question, letter: str) -> str:
    """Return what Enter does on a marked choice."""
    return next(choice.enter for choice in choices_for(question) if choice.letter == letter)


def key_rows(keys: str, width: int) -> list[Row]:
    """Return an approval's keys on as many rows as they need; a row ends between two of them."""
    found: list[str] = []
    for key in keys.split(_BETWEEN):
        longer = f"{found[-1]}{_BETWEEN}{key}" if found else key
        if found and width_of(f"│ {longer}") > width:
            found.append(key)
        else:
            found[-1:] = [longer]
    lines = [Line(((ATTENTION, text),), "│ ", ATTENTION, "│ ") for text in found]
    return [row for line in lines for row in rows(line, width)]


def summary_of(question: Question, cells: int = 60) -> str:
    """Return a question in few words, for a dialog about it."""
    return f"{question_heading(question)}: {clipped(' '.join(question.text.split()), cells)}"


# --- the marked question's list or form -----------------------------------------------------------

_BAR: Final = "│ "
_NAME_CELLS: Final = 20
_ABOUT_ROWS: Final = 6
_OPTION_ROWS: Final = 6
_LEAST_OPTIONS: Final = 3
"""Rows for choices in a card that has none left; the card shows those around the marked one."""

_Body = list[tuple[Row, bool]]
"""Rows, and which of them matter most now."""


def list_rows(question: Question, found: Choosing, *, height: int, width: int) -> list[Row]:
    """Return the card of a question that is answered from a list.

    Where there is no room for all of it the choices come first: the text stands in full above.
    """
    text, room = _text_rows(question, width), height - 1
    options = _option_rows(found, width, indent="", room=max(room - len(text), _LEAST_OPTIONS))
    left = room - len(options)
    if len(text) > left >= 2:
        left_out = len(text) - left + 1
        more = _one_row(((MUTED, f"+{left_out} more lines, in full above"),), width)
        # What is asked stands at the end as a rule, and what it is about at the beginning.
        text = [*text[: left - 2], more, *text[-1:]] if left > 2 else [more, *text[-1:]]
    body: _Body = [*((row, False) for row in text), *options]
    return [*_heading(question, width), *_window(body, room, width)]


def form_rows(
    question: Question, form: Form, found: Choosing | None, *, height: int, width: int
) -> list[Row]:
    """Return the card of a question whose form is open, `found` the list of the field that has one."""
    body: _Body = [(row, False) for row in _text_rows(question, width)]
    wide = min(_NAME_CELLS, max(width_of(sanitized(field.name)) for field in form.asked))
    for number, field in enumerate(form.asked):
        is_here = number == form.at
        row, left = _field_row(form, field, wide, width, is_here=is_here)
        body.append((row, is_here))
        if is_here and (left != field.wants or found is None):
            body += _about_rows(left, width)
        if is_here and found is not None:
            room = max(height - 1 - len(form.asked), _LEAST_OPTIONS)
            body += _option_rows(found, width, indent="    ", room=room)
        if is_here and form.problem:
            body += _problem_rows(form.problem, width)
    if form.field is None and form.problem:
        body += _problem_rows(form.problem, width)
    return [*_heading(question, width), *_window(body, height - 1, width)]


def has_form(question: Question) -> bool:
    """Return whether a question is answered by a form."""
    return question.kind == "question" and bool(fields(question.schema))


def closed_form_rows(
    question: Question, form: Form | None, *, height: int, width: int
) -> list[Row]:
    """Return the card of a question whose form is not open; `form` is what it holds if it was."""
    how = "Enter: one by one" if form is None else "Enter goes on with it"
    text = f"{how} · or {example(fields(question.schema))} in one line, or JSON"
    if form is not None:
        found = form_rows(question, form, None, height=height, width=width)
    else:
        # The last of them says how it is written, which is said here.
        body: _Body = [
            (row, False) for line in question_lines(question)[1:-1] for row in rows(line, width)
        ]
        found = [*_heading(question, width), *_window(body, height - 1, width)]
    return [*found, _one_row(((MUTED, text),), width)]


def _heading(question: Question, width: int) -> list[Row]:
    line = Line(((BOLD, question_heading(question)),), "▸ ", ACCENT, _BAR)
    return [rows(line, width)[0]]


def _text_rows(question: Question, width: int) -> list[Row]:
    return [
        row
        for text in sanitized(question.text).split("\n")
        for row in rows(Line((("", text),), _BAR, ACCENT, _BAR), width)
    ]


def _field_row(
    form: Form, field: Field, wide: int, width: int, *, is_here: bool
) -> tuple[Row, str]:
    """Return a field on its row, and what of it is left to be told below, "" for nothing."""
    name = clipped(sanitized(field.name), wide)
    name += " " * (wide - width_of(name))
    is_held = field.name in form.values
    mark = "▸ " if is_here else "✓ " if is_held else "  "
    style = BOLD if is_here else OK if is_held else ""
    before: tuple[Fragment, ...] = ((style, f"{mark}{name}"), ("", "  "))
    found = form.specs[field.name].get("description")
    description = found if isinstance(found, str) else ""
    if is_held or field.name in form.drafts:
        held = ("", form.held(field)) if is_held else (MUTED, _draft(form, field))
        about = description if choices_in(form.specs[field.name]) else field.wants
        return _one_row((*before, held), width), about
    # Where there is a default an empty line takes it.
    is_needed = field.is_required or "default" in form.specs[field.name]
    may = "" if is_needed else "  (may be left out)"
    room = width - width_of(_BAR) - sum(width_of(text) for _, text in before)
    for text, left in (
        (f"{field.wants}{may}", ""),
        (f"{field.wants.removesuffix(description).rstrip()}{may}", description),
    ):
        if not is_here or width_of(sanitized(text)) <= room:
            return _one_row((*before, (MUTED, text)), width), left
    return _one_row((*before, (MUTED, f"{field.wants}{may}")), width), field.wants


def _draft(form: Form, field: Field) -> str:
    return f"{form.drafts[field.name]}  (not entered yet)"


def _about_rows(text: str, width: int) -> _Body:
    """Return what a field is, where its own row does not say it whole."""
    found = rows(Line(((MUTED, text),), "│     ", ACCENT, "│     "), width) if text else []
    if len(found) > _ABOUT_ROWS:
        left_out = len(found) - _ABOUT_ROWS + 1
        more = _one_row(((MUTED, f"+{left_out} more rows"),), width, bar="│     ")
        found = [*found[: _ABOUT_ROWS - 1], more]
    return [(row, False) for row in found]


def _option_rows(found: Choosing, width: int, *, indent: str, room: int) -> _Body:
    """Return the choices, whole where all of them find room, else only the marked one on more rows."""
    numbers = range(len(found.options))
    laid = [_option(found, number, width, indent=indent) for number in numbers]
    if sum(map(len, laid)) > room:
        laid = [
            _first_rows(laid[number], max(room - len(laid) + 1, 2), width)
            if number == found.at
            else _option(found, number, width, indent=indent, is_cut=True)
            for number in numbers
        ]
    return [(row, number == found.at) for number in numbers for row in laid[number]]


def _option(
    found: Choosing, number: int, width: int, *, indent: str, is_cut: bool = False
) -> list[Row]:
    option, is_marked = found.options[number], number == found.at
    box = ("[x] " if number in found.picked else "[ ] ") if found.many else ""
    mark = f"│{indent}{'▸' if is_marked else ' '}{number + 1} {box}"
    # Nobody reads more in a list, and every frame lays all of them out.
    text = on_one_line(option.label[: _OPTION_ROWS * width]) or '""'
    text += "…" if len(option.label) > _OPTION_ROWS * width else ""
    if is_cut:
        text = clipped(text, max(1, width - width_of(mark)))
    rest = "│" + " " * (width_of(mark) - 1)
    return rows(Line(((BOLD if is_marked else "", text),), mark, ACCENT, rest), width)


def _first_rows(found: list[Row], most: int, width: int) -> list[Row]:
    """Return the first rows, the last of them with a sign where there are more."""
    if len(found) <= most:
        return found
    *before, (style, text) = found[most - 1]
    room = width - sum(width_of(part) for _, part in before)
    return [*found[: most - 1], [*before, (style, clipped(f"{text.rstrip()} …", room))]]


def _problem_rows(problem: str, width: int) -> _Body:
    line = Line(((ATTENTION, problem),), "│     ✗ ", ATTENTION, "│       ")
    return [(row, True) for row in rows(line, width)[:3]]


def _one_row(parts: Sequence[Fragment], width: int, *, bar: str = _BAR) -> Row:
    return one_row(parts, width, bar, ACCENT)


def _window(body: _Body, height: int, width: int) -> list[Row]:
    """Return as many rows as there is room for, those that matter among them."""
    found = [row for row, _ in body]
    if len(found) <= height:
        return found
    if height < 1:
        return []
    hot = [number for number, (_, matters) in enumerate(body) if matters]
    last = hot[-1] if hot else 0
    # One row below what matters, so that one sees where it goes on.
    start = max(0, min(last + 3 - height, len(found) - height))
    if hot:
        start = min(start, max(0, hot[0] - 1))
    shown = found[start : start + height]
    if start and height > 2:
        shown[0] = _one_row(((MUTED, f"+{start + 1} more above"),), width)
    below = len(found) - start - height
    if below > 0 and height > 1:
        shown[-1] = _one_row(((MUTED, f"+{below + 1} more below"),), width)
    return shown
