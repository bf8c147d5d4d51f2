"""What keys do while an approval is marked: they decide, and words never do.

A key decides only if it came alone, on an empty line, and its card has been on the screen for a while:
a key meant for what stood there before, or a pasted text, must decide nothing. Enter decides as the
choice's letter does, once an arrow has marked the choice and the mark has been there as long; nothing is
marked by itself. What allows something takes a key that cannot be a piece of what the terminal says
(`terminal_replies.may_allow`); what refuses does not.
"""

from typing import Final

from midstream.core.call_notes import COMMAND, shown_of
from midstream.core.proposal import Onwards, rewritten
from midstream.core.question import Decision, Question
from midstream.core.routing import is_command
from midstream.language.errors import UserMistake
from midstream.safety.sanitize import scrubbed
from midstream.tui.cards import choices_for
from midstream.tui.dialog import Writing
from midstream.tui.prompt import Prompt, now

REFUSING: Final = ("n", "w")


def may_decide(at: Prompt, *, alone: bool) -> bool:
    """Return whether a key pressed now decides on the marked approval.

    Only a single fresh key does: the line is empty, the card has been on the screen for a while, and no
    other key came with it (a terminal without bracketed paste sends a pasted text as keys, all at once).
    """
    return (
        alone
        and at.editor.is_empty
        and at.dialog.may_decide(at.session.open_questions(), now=now())
    )


def decide(at: Prompt, key: str) -> None:
    """Decide on the marked approval: y, r (for this run), n, w (no, with a note), e (change it).

    On a plan y and a say in which mode it is carried out.
    """
    approval = _approval(at)
    if approval is None:
        return
    if key == "e":
        is_plan = approval.about == "plan"
        text = shown_of(approval) if is_plan else approval.command
        if text:
            at.dialog.over = Writing(approval.id, "plan" if is_plan else "command")
            at.editor.buffer.insert_text(scrubbed(text))
    elif key == "w":
        at.dialog.over = Writing(approval.id, "note")
    else:
        mode: Onwards = "auto" if key == "a" else "ask"
        _approve(at, approval.id, Decision(granted=key in "yra", for_run=key == "r", mode=mode))


def _approval(at: Prompt) -> Question | None:
    return at.dialog.approval(at.session.open_questions())


def takes(at: Prompt, key: str) -> bool:
    """Return whether the marked approval has a choice of that letter."""
    approval = _approval(at)
    return approval is not None and (key == "e" or key in _letters(approval))


def _letters(approval: Question) -> str:
    return "".join(choice.letter for choice in choices_for(approval))


def arrow(at: Prompt, step: int, *, alone: bool) -> None:
    """Mark the choice after (1) or before (-1) the marked one; one key of several unmarks it."""
    approval = _approval(at)
    if alone and approval is not None:
        at.dialog.move_mark(approval, _letters(approval), step)


def enter(at: Prompt, *, alone: bool, quiet: bool) -> bool:
    """Take Enter for a changed command, a note or a marked choice; return whether there is one.

    A changed command is a yes, so only a key that came `alone` sends it, and where it was `quiet`:
    a paste never does.
    """
    text, over = at.editor.buffer.text, at.dialog.over
    if not isinstance(over, Writing) or (over.what == "note" and is_command(text)):
        return _take_marked(at, alone=alone, quiet=quiet)
    if over.what == "note":
        _refuse(at, over.question)
    elif alone and quiet and at.has_paused() and text.strip():
        _run_instead(at, over)
    return True


def _take_marked(at: Prompt, *, alone: bool, quiet: bool) -> bool:
    """Decide by the marked choice, if it stood there long enough and this is the next key."""
    mark, approval = at.dialog.was_marked, _approval(at)
    if mark is None or not at.editor.is_empty:
        return False
    is_own = alone and (quiet or mark.choice in REFUSING)
    if not may_decide(at, alone=is_own) or approval is None or mark.question != approval.id:
        return True
    if at.dialog.is_fresh(mark, now=now()):
        decide(at, mark.choice)
    else:
        at.dialog.mark = mark
    return True


def _refuse(at: Prompt, question: str) -> None:
    at.dialog.over = None
    if _is_open(at, question):
        _approve(at, question, Decision(granted=False, note=at.editor.take().text))
    else:
        words = "That call is closed already; your note stays in the line."
        at.scrollback.say(words, kind="note")


def _run_instead(at: Prompt, changed: Writing) -> None:
    is_open = _is_open(at, changed.question)
    if changed.what == "plan" and is_open:
        _change_plan(at, changed.question)
        return
    at.dialog.over = None
    line = at.editor.take()
    if not is_open:
        at.editor.offer(line.text)
        words = "That call is closed already; Up brings back what you wrote."
        at.scrollback.say(words, kind="note")
    elif line.text != line.shown:
        at.editor.offer(line.text)
        at.scrollback.say(
            "Part of the command is a folded paste that you have not seen: nothing was run. "
            "Type it, or paste it in smaller pieces.",
            kind="warning",
        )
    else:
        _approve(at, changed.question, Decision(granted=True, edited={COMMAND: line.text}))


def _change_plan(at: Prompt, question: str) -> None:
    """Have the card show the plan as the person wrote it; a yes to that is a key of its own."""
    try:
        plan = rewritten(at.editor.unfolded())
    except UserMistake as mistake:
        at.scrollback.say(str(mistake), kind="warning")
        return
    at.dialog.over = None
    at.editor.take()
    edited = {"title": plan.title, "steps": list(plan.steps)}
    _approve(at, question, Decision(granted=True, edited=edited))


def _is_open(at: Prompt, question: str) -> bool:
    return any(open.id == question for open in at.session.open_questions())


def _approve(at: Prompt, question: str, decision: Decision) -> None:
    at.background.begin_guarded(at.session.approve(question, decision))
