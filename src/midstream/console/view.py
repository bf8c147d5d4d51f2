"""What one frame shows: the desk, the editor and the dialog as rows of a given size. No IO."""

from collections.abc import Sequence

import msgspec

from midstream.console import cards
from midstream.console.dialog import Dialog
from midstream.console.editor import Editor, is_command
from midstream.console.lines import DIM, YELLOW, Line, Row, rows
from midstream.console.live import LiveText
from midstream.console.narrator import Narrator
from midstream.console.painting import question_lines
from midstream.core.addressing import address_of
from midstream.core.events import QuestionAsked
from midstream.core.question import Question
from midstream.core.routing import Answer, Returned, Unclear, route
from midstream.ports import Desk, Status


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame shows, looked up once.

    `above` are the rows over the editor and `drawn` the ids of the questions with a card in them.
    """

    status: Status
    questions: tuple[Question, ...]
    focus: str
    above: list[Row]
    drawn: frozenset[str]
    width: int

    @property
    def has_clock(self) -> bool:
        """Return whether something on it changes by itself as time goes by."""
        return any(not lane.is_parked for lane in self.status.lanes)


def look(
    desk: Desk,
    dialog: Dialog,
    *,
    live: LiveText,
    narrator: Narrator,
    is_empty: bool,
    width: int,
    height: int,
    now: float,
) -> Screen:
    """Return what the next frame of a terminal of `height` rows shows.

    The dialog is kept to the questions that are open now. `is_empty` is the editor's. `now` is a
    time in seconds that only grows.
    """
    status = desk.status()
    questions = desk.open_questions()
    dialog.keep_to(questions)
    card_rows, drawn = _cards(questions, dialog.focus, width, height)
    if (approval := dialog.approval(questions)) is not None:
        text = cards.approval_keys(approval) if is_empty else cards.APPROVAL_WAITS
        card_rows += rows(Line(((YELLOW, text),), "│ ", YELLOW, "│ "), width)
    streaming = live.shown(
        narrator.open_calls(),
        height=height // 3 if height >= 6 else 0,
        width=width,
        lanes=status.lanes,
        now=now,
    )
    queued = _queued(desk.waiting_inputs(), width)
    return Screen(
        status=status,
        questions=questions,
        focus=dialog.focus,
        above=[*streaming, *queued, *card_rows, *_choice(dialog, questions, width)],
        drawn=drawn,
        width=width,
    )


def prompt_for(dialog: Dialog, *, width: int) -> str:
    """Return what stands before the line being typed."""
    if dialog.noting:
        return "why not? › " if width >= 30 else "why? "
    if dialog.editing:
        return "run instead › " if width >= 30 else "run "
    return "› "


def bottom_for(screen: Screen, dialog: Dialog, editor: Editor) -> Row:
    """Return the bottom line: the dialog's keys while one is open, else what Enter does first."""
    hint = ""
    if dialog.leave_offered:
        hint = "Ctrl-C again leaves"
    elif dialog.unclear is not None:
        hint = cards.UNCLEAR_KEYS
    elif dialog.noting:
        hint = "Enter refuses with this note · Esc goes back"
        if is_command(editor.buffer.text):
            hint = "⏎ runs the command · Esc goes back"
    elif dialog.editing:
        hint = "Enter runs this instead, once · Esc goes back"
    enter = _enter(screen, editor.buffer.text, editor.seen)
    status = msgspec.structs.replace(screen.status, enter=enter)
    return cards.bottom_line(status, width=screen.width, hint=hint)


def in_full(event: Question | QuestionAsked, *, width: int, height: int) -> list[Line]:
    """Return a question's lines, for the scrollback, if its card cannot hold them; else none."""
    lines = question_lines(event) if event.text else []
    room = _card_room(height)
    taken = 0
    for line in lines:
        taken += len(rows(line, width))
        if taken > room:
            return [*lines]
    return []


def _enter(screen: Screen, text: str, seen: frozenset[str]) -> str:
    """Return what Enter does with the line as it stands, a line begun now if there is none."""
    if is_command(text):
        return "runs the command"
    if not text.strip():
        text, seen = "x", screen.drawn
    name, words = address_of(text)
    if words and name in screen.status.addressees:
        return screen.status.addressees[name]
    found = route(
        text,
        open_questions=screen.questions,
        seen=seen,
        focused=screen.focus,
        addressees=screen.status.addressees,
        gone=screen.status.gone,
        shared=screen.status.shared,
    )
    numbers = {question.id: f"#{question.number}" for question in screen.questions}
    match found:
        case Answer(question=question):
            return f"answers {numbers[question]}"
        case Unclear(question=question):
            return f"asks whether it answers {numbers[question]}"
        case Returned(reason=reason):
            return f"comes back: {reason}"
        case _:
            return screen.status.enter


def _cards(
    questions: Sequence[Question], focus: str, width: int, height: int
) -> tuple[list[Row], frozenset[str]]:
    """Return the cards that find room, the marked one first served, and whose they are."""
    room = _card_room(height)
    found: list[Row] = []
    drawn: set[str] = set()
    others = max(0, min(2, (height // 2 - room) // max(1, len(questions) - 1 or 1)))
    for question in questions:
        is_focused = question.id == focus
        space = room if is_focused else others
        if space < 1 or not question.text:
            continue
        found += cards.card_rows(question, is_focused=is_focused, height=space, width=width)
        drawn.add(question.id)
    return found, frozenset(drawn)


def _card_room(height: int) -> int:
    return max(2, height // 3)


def _queued(waiting: Sequence[str], width: int) -> list[Row]:
    found = [
        rows(Line(((DIM, " ".join(text.split())[: width * 2]),), "⏳ ", DIM), width)[0]
        for text in waiting[:2]
    ]
    if len(waiting) > 2:
        found.append([(DIM, f"  +{len(waiting) - 2} more waiting")])
    return found


def _choice(dialog: Dialog, questions: Sequence[Question], width: int) -> list[Row]:
    """Return what asks about an unclear line, nothing if there is none."""
    unclear = dialog.unclear
    if unclear is None:
        return []
    asked = next((q for q in questions if q.id == unclear.question), None)
    about = "a question that came meanwhile" if asked is None else cards.summary_of(asked)
    text = f"You began this line before it was asked: {about}"
    return [
        *rows(Line((("", text),), "? ", YELLOW), width),
        *rows(Line(((YELLOW, cards.UNCLEAR_KEYS),), "  ", YELLOW), width),
    ]
