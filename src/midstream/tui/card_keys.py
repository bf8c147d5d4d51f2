"""What Enter, the arrows, Space and Esc do under a question's list or form, and in the list of turns.

A function that takes a key and returns a bool says whether the key was for that: where it was not, the
key means what it always means.
"""

from midstream.core.question import Question
from midstream.core.routing import is_command
from midstream.tui.answering import Step
from midstream.tui.prompt import Prompt, now
from midstream.tui.turn_list import ARMED, TurnList

# --- the arrows -----------------------------------------------------------------------------------


def takes_arrows(at: Prompt) -> bool:
    """Return whether arrows are for the list of turns, the card of a question, or a numbered list."""
    turns = at.dialog.turns
    if turns is not None:
        return at.dialog.is_fresh(turns, now=now())
    return number_of(at) is not None or _card_takes_arrows(at)


def arrow(at: Prompt, step: int) -> None:
    """Move within the list or the card by Up (-1) or Down (1), else as ever."""
    if _arrow_in_turns(at, step):
        at.scrollback.redraw()
        return
    if _arrow_in_numbers(at, step):
        return
    if step < 0 and brings_back(at) and not is_marked(at):
        up(at)
    elif _arrow_in_card(at, step):
        at.scrollback.redraw()
    elif step < 0:
        up(at)
    else:
        at.editor.buffer.auto_down()


def number_of(at: Prompt) -> int | None:
    """Return the number in the line that chooses from a list, 0 for none yet; None: it is other words."""
    count = 0 if at.screen is None else at.screen.status.numbered
    text = at.editor.buffer.text
    if not count or not text:
        return 0 if count else None
    return int(text) if text in map(str, range(1, count + 1)) else None


def _arrow_in_numbers(at: Prompt, step: int) -> bool:
    """Put the number above (-1) or below (1) into the line, where a line chooses from a numbered list."""
    number = number_of(at)
    if number is None or at.screen is None:
        return False
    count = at.screen.status.numbered
    number = number + step if number or step > 0 else count
    at.editor.replace(str(min(max(1, number), count)))
    return True


def brings_back(at: Prompt) -> bool:
    """Return whether Up on an empty line has a line to bring back that was not delivered."""
    return bool(at.editor.returned or at.delivery.waits)


def up(at: Prompt) -> None:
    """Bring a line back: one that came back, one that still waits, or one of the history."""
    if at.editor.is_empty and not at.editor.returned and at.delivery.waits:
        at.delivery.take_back()
    else:
        at.editor.up()


def next_question(at: Prompt) -> None:
    """Mark the next question."""
    if at.screen is not None:
        if at.dialog.answering.filling:
            leave_card(at)
        at.dialog.mark_next(at.screen.questions)


# --- a question's list or form ---------------------------------------------------------------


def _asked(at: Prompt) -> Question | None:
    """Return the marked question, if its list or form may have keys now."""
    return None if at.dialog.over is not None else at.dialog.asked(at.session.open_questions())


def enter_marked(at: Prompt, *, alone: bool, quiet: bool) -> bool:
    """Take Enter for an open form, or for a choice that is marked; more of a budget is allowed
    only where it is `quiet`.
    """
    answering = at.dialog.answering
    text = at.editor.buffer.text
    if answering.filling:
        if is_command(text):
            return False
        # Typed ahead, lines may come together; an Enter without one decides only if it is alone.
        if alone or text.strip():
            _do(at, answering.enter(None, at.editor.unfolded(), now=now()))
        return True
    asked = _asked(at)
    if not alone or not at.editor.is_empty or not answering.marks(asked):
        return False
    if asked is not None and asked.about == "budget" and not quiet:
        return True
    return _do(at, answering.enter(asked, "", now=now()))


def enter_empty(at: Prompt, *, alone: bool) -> bool:
    """Take Enter on an empty line: it opens the form of the marked question."""
    asked = _asked(at)
    if not alone or asked is None or not at.editor.is_empty:
        return False
    return _do(at, at.dialog.answering.enter(asked, "", now=now()))


def _card_takes_arrows(at: Prompt) -> bool:
    """Return whether arrows are for a card: its form is open, or its list is under an empty line."""
    answering, asked = at.dialog.answering, _asked(at)
    if answering.filling:
        return not answering.is_closed
    return (
        at.editor.is_empty
        and asked is not None
        and at.dialog.is_fresh(asked.id, now=now())
        and answering.list_of(asked) is not None
    )


def is_marked(at: Prompt) -> bool:
    """Return whether an arrow has marked a choice, or a form is open."""
    return bool(at.dialog.answering.filling) or at.dialog.answering.marks(_asked(at))


def _arrow_in_card(at: Prompt, step: int) -> bool:
    """Take Up (-1) or Down (1)."""
    buffer = at.editor.buffer
    row, last = buffer.document.cursor_position_row, buffer.document.line_count - 1
    if (step < 0 and row > 0) or (step > 0 and row < last):
        return False
    answering = at.dialog.answering
    text = at.editor.unfolded()
    return _do(at, answering.arrow(_asked(at), text, step, now=now()))


def may_pick(at: Prompt) -> bool:
    """Return whether Space picks the marked choice."""
    return at.editor.is_empty and at.dialog.answering.picks(_asked(at))


def pick(at: Prompt) -> None:
    """Pick the marked choice, or no more."""
    at.dialog.answering.pick(_asked(at))


def leave_card(at: Prompt) -> bool:
    """Leave the form, or mark nothing any more."""
    answering = at.dialog.answering
    if answering.filling:
        return _do(at, answering.leave(at.editor.unfolded()))
    asked = _asked(at)
    if not at.editor.is_empty or not answering.marks(asked):
        return False
    answering.unmark(asked)
    return True


def takes_offer(at: Prompt) -> bool:
    """Return whether Enter on an empty line takes the output that the person's own command left."""
    is_free = at.editor.is_empty and not at.dialog.is_open
    approval = at.dialog.approval(at.session.open_questions())
    return (
        at.own.offer is not None and is_free and not (is_marked(at) or at.dialog.marked(approval))
    )


def leave_closed(at: Prompt) -> None:
    """Leave a form whose question has closed meanwhile, unless something is being typed into it.

    What forms held that were left before that comes back with Up.
    """
    answering = at.dialog.answering
    if answering.is_closed and at.editor.is_empty:
        answering.leave("")
        at.dialog.keep_to(at.session.open_questions())
    for number, filled in answering.let_go:
        at.editor.offer(filled)
        words = f"#{number} is closed. Up brings back what you had filled in."
        at.scrollback.say(words, kind="note")
    answering.let_go.clear()


def _do(at: Prompt, step: Step | None) -> bool:
    if step is None:
        return False
    if step.line is not None and step.line != at.editor.unfolded():
        at.editor.replace(step.line)
    if step.says:
        at.scrollback.say(step.says, kind="note")
    if step.answer is not None:
        at.delivery.answer(step.answer)
    return True


# --- the list of earlier turns ----------------------------------------------------------------


def rests(at: Prompt) -> bool:
    """Return whether Esc has nothing to stop and nothing to close."""
    screen = at.screen
    return (
        screen is not None
        and at.editor.is_empty
        and at.editor.buffer.complete_state is None
        and at.dialog.turns is None
        and not at.dialog.is_open
        and not at.own.is_running
        and at.own.offer is None
        and not (screen.status.busy or screen.questions or screen.can_withdraw)
    )


def go_back(at: Prompt) -> None:
    """Open the list of the last turns, if the key before was this one, too."""
    # Both pressed at once are counted before the first is acted on.
    if "armed" in (at.dialog.before, at.dialog.did):
        at.dialog.did = ""
        at.background.begin_guarded(_open_turns(at))
    else:
        at.dialog.did, at.dialog.news = "armed", ARMED
        at.scrollback.redraw()


async def _open_turns(at: Prompt) -> None:
    turns = await at.session.turns()
    if not turns:
        words = "There is nothing to go back to: no turn began with a line of yours."
        at.scrollback.say(words, kind="note")
    elif rests(at):
        at.dialog.turns = TurnList(turns=turns)


def enter_turns(at: Prompt, *, alone: bool) -> bool:
    """Take Enter where the list is open: it goes back to before the marked turn.

    Only a key of its own, well after the list came, does.
    """
    shown = at.dialog.turns
    if shown is None:
        return False
    if alone and at.dialog.is_fresh(shown, now=now()) and at.has_paused():
        if shown.number:
            at.editor.replace("")
        at.dialog.turns = None
        at.background.begin_guarded(at.session.go_back(shown.marked))
    return True


def _arrow_in_turns(at: Prompt, step: int) -> bool:
    """Take Up (-1) or Down (1) where the list is open."""
    turns = at.dialog.turns
    if turns is None:
        return False
    if turns.number:
        at.editor.replace("")
    turns.move(step)
    return True


def close_turns(at: Prompt) -> bool:
    """Close the list where it is open."""
    if at.dialog.turns is None:
        return False
    at.dialog.turns = None
    return True
