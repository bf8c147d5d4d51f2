"""What Enter and Tab do with the line: whose it is, and when it is delivered.

Enter asks everybody who may have it, one after the other: an unclear line, the list of turns, an
approval's note, a card, the person's own shell. What nobody has is words for the session.
"""

import msgspec

from midstream.core.routing import is_command
from midstream.language.names import Policy
from midstream.tui import approval_keys, card_keys
from midstream.tui.completion import is_own
from midstream.tui.dialog import UnclearLine
from midstream.tui.editor import Typed
from midstream.tui.frame_rows import chosen_by, may_queue
from midstream.tui.prompt import Prompt, now


def send(at: Prompt, *, alone: bool, quiet: bool) -> None:
    """Send the line, or whatever Enter means now; an empty line does nothing.

    `alone`: no other key came with this one; `quiet`: nor is it where it may be a piece of what the
    terminal says. Only what allows, spends or takes back asks for that.
    """
    if isinstance(at.dialog.over, UnclearLine):
        return
    if card_keys.enter_turns(at, alone=alone and quiet) or approval_keys.enter(
        at, alone=alone, quiet=quiet
    ):
        return
    text = at.editor.buffer.text
    if card_keys.enter_marked(at, alone=alone, quiet=quiet):
        at.scrollback.redraw()
    elif is_own(text):
        at.own.enter(at.session, at.background.tasks)
    elif text.strip():
        at.own.drop()
        if not _outlived(at, text):
            _send_words(at)
    elif alone and card_keys.takes_offer(at) and at.dialog.is_fresh(at.own.offer, now=now()):
        at.own.join()
    elif not card_keys.enter_empty(at, alone=alone):
        at.editor.clear()
        if alone and quiet and at.session.status().on_empty:
            at.background.begin_guarded(at.session.go_on())


def _outlived(at: Prompt, text: str) -> bool:
    """Return whether a line stays: its workflow ended since the last one, and somebody else is next.

    It is said, once; the next Enter sends it.
    """
    ended, at.dialog.outlived = at.dialog.outlived, ""
    if not ended or is_command(text):
        return False
    enter = at.session.status().enter
    at.scrollback.say(f"{ended} has ended. Enter now {enter}.", kind="note")
    return True


def _send_words(at: Prompt) -> None:
    """Deliver the line: to the question it answers, or to whom it is for."""
    line = _answerable(at, at.editor.send())
    to = at.delivery.route(line)
    chosen = chosen_by(at.session.open_questions(), at.dialog, to)
    if chosen is not None and not chosen[0].choices:
        # What stands for a value in the list, such as "yes", is that value.
        at.delivery.answer(at.dialog.answering.chosen(*chosen), line=line)
    else:
        at.delivery.deliver(line, to)


def _answerable(at: Prompt, line: Typed) -> Typed:
    """Return the line, without the questions its first key came too early for.

    A lone number chooses from a list; one that was begun as the list came up was meant for
    something else.
    """
    if not line.text.strip().isdigit():
        return line
    begun_at, on_screen = at.dialog.begun_at, at.dialog.answering.on_screen
    early = {
        question.id
        for question in at.session.open_questions()
        if on_screen.since(question.id) is not None
        and not on_screen.is_fresh(question.id, now=begun_at)
    }
    return msgspec.structs.replace(line, seen=line.seen - early)


# --- while something runs -------------------------------------------------------------------------


def queues(at: Prompt) -> bool:
    """Return whether Tab queues the line."""
    screen = at.screen
    return screen is not None and may_queue(screen, at.dialog, at.editor)


def queue(at: Prompt, *, alone: bool) -> None:
    """Let the line wait until what runs is done; a Tab among pasted text does nothing."""
    if alone and at.has_paused():
        _send_as(at, "queue")


def _send_as(at: Prompt, policy: Policy) -> None:
    line = at.editor.send()
    at.delivery.deliver(line, at.delivery.route(line, is_new=True), policy=policy)


def steer(at: Prompt, *, alone: bool, quiet: bool) -> None:
    """Let the line join the next request of what runs; where nothing does, send it."""
    if queues(at):
        _send_as(at, "steer")
    else:
        send(at, alone=alone, quiet=quiet)


# --- an unclear line ------------------------------------------------------------------------------


def may_choose(at: Prompt, *, alone: bool) -> bool:
    """Return whether a key pressed now says what the unclear line is."""
    return alone and at.dialog.may_choose(now=now())


def choose(at: Prompt, choice: str) -> None:
    """Send the unclear line as an answer (a) or a new instruction (n), or keep it (e)."""
    unclear, at.dialog.over = at.dialog.over, None
    if not isinstance(unclear, UnclearLine) or choice == "e":
        at.editor.touched()
        at.scrollback.redraw()
        return
    line = msgspec.structs.replace(at.editor.send(), seen=unclear.line.seen)
    answers = unclear.question if choice == "a" else ""
    to = at.delivery.route(line, answers=answers, is_new=not answers)
    at.delivery.deliver(line, to, is_echoed=unclear.is_echoed)
