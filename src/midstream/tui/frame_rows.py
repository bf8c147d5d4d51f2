"""What one frame shows: the session, the editor and the dialog as rows of a given size. No IO."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from midstream.app.ui import Console, Status
from midstream.core.events import QuestionAsked
from midstream.core.question import Question
from midstream.core.routing import Destination, Route, is_command
from midstream.core.todo import TodoItem
from midstream.language.names import CHAT, mode_words
from midstream.safety.sanitize import on_one_line, sanitized
from midstream.tui import cards
from midstream.tui.bottom_line import ESC_STOPS, bottom_line
from midstream.tui.choice_list import Choosing
from midstream.tui.completion import is_own, words_of
from midstream.tui.dialog import Dialog, UnclearLine, Writing
from midstream.tui.editor import Editor, Typed, esc_in_vi
from midstream.tui.event_lines import question_lines
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.keymap import called
from midstream.tui.styled_lines import Line, Row, one_row, rows
from midstream.tui.themes import ACCENT, ATTENTION, MUTED
from midstream.tui.turn_list import keys_for, turn_rows
from midstream.views.cells import clipped, width_of
from midstream.views.run_status import Waiting, entered, what_a_line_does
from midstream.views.todo_list import open_items, summary_of


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame shows, looked up once.

    `above` are the rows over the editor and `drawn` the ids of the questions with a card in them.
    `on_empty` is what Enter does on an empty line, where it does something. `own_runs`: a command of
    the person's own does. `can_withdraw`: some line that waits can be taken back. `spare` are the
    rows of the live region that nothing has taken. `route` says whom a line is for that was begun under
    these questions, as `Console.route` does.
    """

    status: Status
    questions: tuple[Question, ...]
    route: Callable[[str, frozenset[str]], Route | None]
    above: list[Row]
    drawn: frozenset[str]
    width: int
    on_empty: str = ""
    own_runs: bool = False
    can_withdraw: bool = False
    spare: int = 0

    @property
    def has_clock(self) -> bool:
        """Return whether something on it changes by itself as time goes by."""
        return any(not lane.is_parked for lane in self.status.lanes)


def look(
    session: Console,
    dialog: Dialog,
    *,
    renderer: EventRenderer,
    text: str,
    width: int,
    height: int,
    now: float,
    most: int | None = None,
    kept: int = 0,
    late: Sequence[Typed] = (),
) -> Screen:
    """Return what the next frame of a terminal of `height` rows shows.

    The dialog is kept to the questions that are open now. `text` is what the editor holds. `now` is
    a time in seconds that only grows. What streams has a third of the rows, and no more than `most`.
    `kept` rows or a few more are left to a graph by words
    that stream: not by those at work, who keep their lines, nor where there are cards. `late` are lines
    that were entered, and of which nobody has said for a while what became of them.
    """
    status = session.status()
    questions = session.open_questions()
    dialog.keep_to(questions)
    dialog.keep_turns_of(status.run, rests=not status.busy and not questions)
    card_rows, drawn = _cards(questions, dialog, text, width, height)
    if not dialog.is_open and (approval := dialog.approval(questions)) is not None:
        text = (
            cards.approval_waits(approval)
            if text
            else cards.approval_keys(approval, dialog.marked(approval))
        )
        card_rows += cards.key_rows(text, width)
    calls = renderer.open_calls()
    most = min(height // 3 if height >= 6 else 0, height if most is None else max(0, most))
    # Where a card needs the rows, the list can wait: it is kept, and `/todo` shows it.
    todo = [] if card_rows else todo_rows(status.todo, width=width, height=most // 3)
    most -= len(todo)
    kept = max(kept, most // 3) if kept and most >= 2 * kept and not card_rows else 0
    # Beside words that stream half of the rows are for those at work.
    has_room = max(len(status.lanes), len(calls)) <= (most - kept) // 2
    streaming = renderer.live.shown(
        calls,
        height=most - kept if has_room else most,
        width=width,
        lanes=status.lanes,
        now=now,
        run=status.run,
        progress=status.progress,
    )
    waiting = session.waiting_inputs()
    queued = waiting_rows((*waiting, *(entered(line.shown) for line in late)), width)
    turns = turn_rows(dialog.turns, width=width, height=height) if dialog.turns else []
    above = [*streaming, *todo, *queued, *card_rows, *_choice(dialog, questions, width), *turns]
    return Screen(
        status=status,
        questions=questions,
        route=lambda text, seen: session.route(words_of(text), seen=seen, focused=dialog.focus),
        above=above,
        drawn=drawn,
        width=width,
        can_withdraw=any(line.can_be_withdrawn for line in waiting),
        spare=max(0, most + len(todo) - len(above)),
    )


def prompt_for(dialog: Dialog, *, width: int) -> str:
    """Return what stands before the line being typed."""
    if isinstance(dialog.over, Writing):
        return _BEFORE[dialog.over.what][width < 30]
    if dialog.answering.filling:
        form = dialog.answering.form
        name = "" if form is None else "send it?" if form.field is None else form.field.name
        return f"{clipped(on_one_line(name), max(1, width // 3))} › "
    return "› "


_BEFORE: Final = {
    "note": ("why not? › ", "why? "),
    "command": ("run instead › ", "run "),
    "plan": ("the plan › ", "› "),
}


def bottom_for(
    screen: Screen, dialog: Dialog, editor: Editor, *, is_searching: bool = False
) -> Row:
    """Return the bottom line: the dialog's keys while one is open, else what Enter does first.

    `is_searching`: the keys search the history.
    """
    hint, send = "", called("send")
    if is_searching:
        hint = "⏎ takes the line · Ctrl-R further back · Ctrl-C leaves"
    elif dialog.leave_offered:
        hint = "Ctrl-C again leaves"
    elif dialog.turns is not None:
        hint = keys_for(screen.width)
    text = editor.buffer.text
    hint = hint or _keys_over(dialog.over, text) or dialog.news
    if not hint and dialog.answering.filling:
        hint = _form_keys(dialog, text)
    seen = editor.seen
    enter = _of_the_card(screen, dialog, text, seen)
    if text.strip():
        enter = enter or _enter(screen, text, seen, dialog.outlived)
    elif not enter:
        enter = screen.on_empty or screen.status.on_empty
    enter = f"{send} {enter}" if enter else _begun_now(screen, dialog)
    mode = mode_words(screen.status.mode, beside=enter)
    if not enter:
        enter, mode = mode, ""  # it stands first, and is cut last
    tab = screen.status.tab if not text.strip() or may_queue(screen, dialog, editor) else ""
    esc = esc_in_vi(_esc(screen, dialog, text))
    status = msgspec.structs.replace(screen.status, mode=mode, enter=enter, tab=tab, busy=bool(esc))
    return bottom_line(status, width=screen.width, hint=hint, esc=esc)


def _keys_over(over: UnclearLine | Writing | None, text: str) -> str:
    """Return the keys of what stands open over the line, "" where nothing does."""
    match over:
        case None:
            return ""
        case UnclearLine():
            return cards.unclear_keys()
        case Writing(what="note"):
            does = "runs the command" if is_command(text) else "refuses with this note"
        case Writing(what="plan"):
            key = called("edit_outside")
            does = f"puts it on the card{f' · {key}: your editor' if key else ''}"
        case Writing():
            does = "runs this instead, once"
            if not text.strip():
                return "type a command · Esc goes back"
    return f"{called('send')} {does} · Esc goes back"


def may_queue(screen: Screen, dialog: Dialog, editor: Editor) -> bool:
    """Return whether Tab queues the line: something runs, and there is nothing to complete."""
    text = editor.buffer.text
    if not screen.status.tab or dialog.is_open or not text.strip():
        return False
    return not (is_command(text) or is_own(text) or editor.completes)


def chosen_by(
    questions: Sequence[Question], dialog: Dialog, to: Route | None
) -> tuple[Question, Choosing] | None:
    """Return the question a line answers by naming choices of its list, and the list so marked."""
    if not isinstance(to, Destination):
        return None
    for question in questions:
        if question.id == to.shown_question:
            choosing = dialog.answering.list_of(question, to.text)
            return None if choosing is None or not choosing.is_made else (question, choosing)
    return None


def _of_the_card(screen: Screen, dialog: Dialog, text: str, seen: frozenset[str]) -> str:
    """Return what Enter does with the marked card, "" if it does nothing with it."""
    to = screen.route(text, seen) if text.strip() and not is_own(text) else None
    if (chosen := chosen_by(screen.questions, dialog, to)) is not None:
        return f"answers #{chosen[0].number}: {chosen[1].label}"
    approval = dialog.approval(screen.questions)
    if not text and approval is not None and (choice := dialog.marked(approval)):
        return cards.enter_takes(approval, choice)
    asked = dialog.asked(screen.questions)
    if asked is None or text.strip() or asked.id not in screen.drawn:
        return ""
    marked = dialog.answering.list_of(asked)
    if marked is not None and dialog.answering.marks(asked):
        return f"answers #{asked.number}: {marked.label}"
    fills_in = cards.has_form(asked) and not screen.on_empty
    return f"fills in #{asked.number}" if fills_in else ""


def _esc(screen: Screen, dialog: Dialog, text: str) -> str:
    """Return what Esc does now, "" if it does nothing."""
    if text and text == dialog.recalled:
        return "Esc withdraws it"
    is_marked = dialog.answering.marks(dialog.asked(screen.questions))
    if not text and (is_marked or dialog.marked(dialog.approval(screen.questions))):
        return "Esc unmarks"
    if screen.own_runs:
        return "Esc ends your command"
    if screen.status.busy:
        return screen.status.esc or ESC_STOPS
    return "Esc withdraws the last" if screen.can_withdraw and not text else ""


def _form_keys(dialog: Dialog, text: str) -> str:
    """Return what the keys do in the open form."""
    answering = dialog.answering
    form, send = answering.form, called("send")
    if answering.is_closed or form is None:
        return f"#{answering.number()} is closed · {send} keeps the line"
    if is_command(text):
        return f"{send} runs the command · Esc leaves the form"
    found = answering.field_list(text)
    if form.field is None:
        enter = f"{send} answers #{answering.number()}"
    elif found is not None and found.is_made:
        enter = f"{send} takes {found.label}"
    elif found is not None and text.strip():
        enter = "that is not a choice"
    elif text.strip() or form.field.name in form.values:
        enter = f"{send} takes it"
    elif "default" in form.spec:
        enter = f"{send} takes {form.default}"
    else:
        enter = f"{send} needs a value" if form.field.is_required else f"{send} leaves it out"
    picks = " · Space picks" if found is not None and found.many and not text else ""
    back = " · ↑ back" if form.at else ""
    return f"{enter}{picks}{back} · Esc keeps it for later"


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


def _enter(screen: Screen, text: str, seen: frozenset[str], outlived: str) -> str:
    """Return what Enter does with the line as it stands.

    `outlived` is the workflow that ended while it was typed, "" for none.
    """
    if is_own(text):
        return "runs it in your shell" if text[1:].strip() else "adds the last output"
    found = screen.route(text, seen)
    if found is None:
        return "runs the command" if is_command(text) else "leaves"
    if outlived:
        return f"asks once more: {outlived} has ended"
    numbers = {question.id: f"#{question.number}" for question in screen.questions}
    return what_a_line_does(
        text,
        found,
        numbers=numbers,
        addressees=screen.status.addressees,
        otherwise=screen.status.enter,
    )


def _begun_now(screen: Screen, dialog: Dialog) -> str:
    """Return what may be done where Enter on the empty line does nothing: keys that decide, or a line.

    "" in a chat that waits for words: there is nothing else to do with them.
    """
    does = _enter(screen, "x", screen.drawn, "")
    if does.startswith(_SENDS):
        is_chat = screen.status.mode.startswith(CHAT)
        does = "" if is_chat else f"goes to {does.removeprefix(_SENDS)}"
    line = f"a line {does}" if does else ""
    approval = dialog.approval(screen.questions)
    if approval is None or approval.id not in screen.drawn:
        return line
    keys = f"{called('allow')} yes, {called('deny')} no"
    return f"{keys}, {line}" if line else keys


_SENDS: Final = "sends to "


def _cards(
    questions: Sequence[Question], dialog: Dialog, text: str, width: int, height: int
) -> tuple[list[Row], frozenset[str]]:
    """Return the cards that find room, the marked one first served, and whose they are."""
    room = _card_room(height)
    found: list[Row] = []
    drawn: set[str] = set()
    others = max(0, min(2, (height // 2 - room) // max(1, len(questions) - 1 or 1)))
    for question in questions:
        is_focused = question.id == dialog.focus
        space = room if is_focused else others
        if space < 1 or not question.text:
            continue
        own = _own_rows(question, dialog, text, width, space, height) if is_focused else []
        found += own or cards.card_rows(question, is_focused=is_focused, height=space, width=width)
        drawn.add(question.id)
    return found, frozenset(drawn)


def _card_room(height: int) -> int:
    return max(2, height // 3)


def _own_rows(
    question: Question, dialog: Dialog, text: str, width: int, space: int, height: int
) -> list[Row]:
    """Return the marked question's card where it has a list or a form, else none."""
    answering = dialog.answering
    if answering.filling == question.id and answering.form is not None:
        room = max(space, height // 2)
        found = answering.field_list(text)
        return cards.form_rows(question, answering.form, found, height=room, width=width)
    if cards.has_form(question):
        form = answering.begun(question)
        return cards.closed_form_rows(question, form, height=space, width=width)
    means = "" if dialog.is_open else text.removeprefix(f"#{question.number} ")
    marked = answering.list_of(question, means)
    return [] if marked is None else cards.list_rows(question, marked, height=space, width=width)


def _choice(dialog: Dialog, questions: Sequence[Question], width: int) -> list[Row]:
    """Return what asks about an unclear line, nothing if there is none."""
    unclear = dialog.over
    if not isinstance(unclear, UnclearLine):
        return []
    asked = next((q for q in questions if q.id == unclear.question), None)
    about = "a question that came meanwhile" if asked is None else cards.summary_of(asked)
    text = f"You began this line before it was asked: {about}"
    return [
        *rows(Line((("", text),), "? ", ATTENTION), width),
        *rows(Line(((ATTENTION, cards.unclear_keys()),), "  ", ATTENTION), width),
    ]


# --- the todo list --------------------------------------------------------------------------------


def todo_rows(items: Sequence[TodoItem], *, width: int, height: int) -> list[Row]:
    """Return at most two rows of the list: how far it is and what is being done, and what comes then.

    Nothing where nothing is left to do.
    """
    left = open_items(items)
    if not left or height < 1:
        return []
    found = [one_row([("", on_one_line(summary_of(items)))], width - 1, "☐ ", ACCENT)]
    if len(left) > 1 and height > 1:
        then = " · ".join(on_one_line(item.text) for item in left[1:_NEXT])
        more = f" · +{len(left) - _NEXT}" if len(left) > _NEXT else ""
        words = clipped(f"then: {then}", max(1, width - 3 - width_of(more)))
        found.append(one_row([(MUTED, words + more)], width - 1, "  ", MUTED))
    return found


_NEXT: Final = 3


# --- the lines that wait to be delivered ----------------------------------------------------------

WAITING_SHOWN: Final = 3
_WORDS_CELLS: Final = 16
"""So many cells of a line's own words stand before its fate is shortened."""


def waiting_rows(waiting: Sequence[Waiting], width: int) -> list[Row]:
    """Return a row for each line that waits, the newest ones where there are many.

    Behind the newest that can be taken back stands how, where there is room.
    """
    left_out = len(waiting) - WAITING_SHOWN if len(waiting) > WAITING_SHOWN else 0
    found: list[Row] = []
    if left_out:
        found.append([(MUTED, clipped(f"   +{left_out} more waiting", max(1, width)))])
    back = next((line.id for line in reversed(waiting) if line.can_be_withdrawn), None)
    for line in waiting[left_out:]:
        found.append(_waiting_row(line, width, hint="Up takes it back" if line.id == back else ""))
    return found


def _waiting_row(line: Waiting, width: int, *, hint: str) -> Row:
    room = max(1, width - 3)
    words = on_one_line(line.text)
    wanted = min(width_of(words), _WORDS_CELLS)
    fate = next(
        (
            each
            for each in (
                f" · {line.fate} · {hint}" if hint else "",
                f" · {line.fate}",
                f" · {line.brief}",
            )
            if each and width_of(sanitized(each)) + wanted <= room
        ),
        "",
    )
    fate = fate or clipped(f" · {line.brief}", max(0, room - 4))
    words = clipped(words, max(0, room - width_of(fate)))
    return one_row([("", words), (MUTED, fate)], width, "⏳ ", MUTED)
