"""What keys do while an approval is marked: they decide, and words never do.

A key decides only if it came alone, on an empty line, and its card has been on the screen for a while:
a key meant for what stood there before, or a pasted text, must decide nothing. Enter decides as the
choice's letter does, once an arrow has marked the choice and the mark has been there as long; nothing is
marked by itself. What allows something takes a key that cannot be a piece of what the terminal says
(`terminal_replies.may_allow`); what refuses does not.
"""

import asyncio
from typing import Final

from midstream.app.ui import Console
from midstream.core.call_notes import COMMAND
from midstream.core.question import Decision
from midstream.safety.sanitize import scrubbed
from midstream.tui.background_tasks import UnderWay
from midstream.tui.cards import approval_choices
from midstream.tui.dialog import Dialog
from midstream.tui.editor import Editor, is_command
from midstream.tui.scrollback import Scrollback

MINE: Final = True
REFUSING: Final = ("n", "w")


class ApprovalKeys:
    """Keys on their way to an approval."""

    def __init__(
        self,
        desk: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        scrollback: Scrollback,
        under_way: UnderWay,
        fresh_s: float,
    ) -> None:
        """Make one. A card must have been drawn for `fresh_s` seconds before a key counts."""
        self._desk = desk
        self._dialog = dialog
        self._editor = editor
        self._scrollback = scrollback
        self._under_way = under_way
        self._fresh_s = fresh_s

    def may_decide(self, *, alone: bool) -> bool:
        """Return whether a key pressed now decides on the marked approval.

        Only a single fresh key does: the line is empty, the card has been on the screen for
        `fresh_s`, and no other key came with it (a terminal without bracketed paste sends a
        pasted text as keys, all at once).
        """
        return (
            alone
            and self._editor.is_empty
            and self._dialog.may_decide(
                self._desk.open_questions(),
                now=asyncio.get_running_loop().time(),
                fresh_s=self._fresh_s,
            )
        )

    def decide(self, key: str) -> None:
        """Decide on the marked approval: y, r (for this run), n, w (no, with a note), e (change it)."""
        self._dialog.leave_offered = False
        question = self._dialog.decidable[0]
        if key == "e":
            questions = self._desk.open_questions()
            command = next((q.command for q in questions if q.id == question), "")
            if command:
                self._dialog.editing = question
                self._editor.buffer.insert_text(scrubbed(command))
        elif key == "w":
            self._dialog.noting = question
        else:
            self._approve(question, Decision(granted=key in "yr", for_run=key == "r"))

    def takes_arrows(self) -> bool:
        """Return whether arrows mark one of the marked approval's choices."""
        return self.may_decide(alone=True)

    def is_marked(self) -> bool:
        """Return whether the key before this one marked a choice."""
        return self._dialog.mark is not None and self._dialog.is_next(self._dialog.mark)

    def arrow(self, step: int, *, alone: bool) -> None:
        """Mark the choice after (1) or before (-1) the marked one; one key of several unmarks it."""
        approval = self._dialog.approval(self._desk.open_questions())
        if alone and approval is not None:
            self._dialog.move_mark(approval, approval_choices(approval), step)
        else:
            self._dialog.mark = None

    def enter(self, *, alone: bool, quiet: bool) -> bool:
        """Take Enter for a changed command, a note or a marked choice; return whether there is one.

        A changed command is a yes, so only a key that came `alone` sends it, and where it was `quiet`:
        a paste never does.
        """
        text = self._editor.buffer.text
        if self._dialog.editing:
            now = asyncio.get_running_loop().time()
            if alone and quiet and self._dialog.has_paused(now) and text.strip():
                self._run_instead()
            return MINE
        if self._dialog.noting and not is_command(text):
            self._refuse()
            return MINE
        return self._take_marked(alone=alone, quiet=quiet)

    def _take_marked(self, *, alone: bool, quiet: bool) -> bool:
        """Decide by the marked choice, if it stood there long enough and this is the next key."""
        mark, self._dialog.mark = self._dialog.mark, None
        if mark is None or not self._dialog.is_next(mark) or not self._editor.is_empty:
            return not MINE
        is_own = alone and (quiet or mark.choice in REFUSING)
        if not self.may_decide(alone=is_own) or mark.question != self._dialog.decidable[0]:
            return MINE
        now = asyncio.get_running_loop().time()
        if mark.since is not None and now - mark.since >= self._fresh_s:
            self.decide(mark.choice)
        else:
            mark.press = self._dialog.presses
            self._dialog.mark = mark
        return MINE

    def _refuse(self) -> None:
        question, self._dialog.noting = self._dialog.noting, ""
        if self._is_open(question):
            self._approve(question, Decision(granted=False, note=self._editor.take().text))
        else:
            words = "That call is closed already; your note stays in the line."
            self._scrollback.say(words, kind="note")

    def _run_instead(self) -> None:
        question, self._dialog.editing = self._dialog.editing, ""
        line = self._editor.take()
        if not self._is_open(question):
            self._editor.offer(line.text)
            words = "That call is closed already; Up brings your command back."
            self._scrollback.say(words, kind="note")
        elif line.text != line.shown:
            self._editor.offer(line.text)
            self._scrollback.say(
                "Part of the command is a folded paste that you have not seen: nothing was run. "
                "Type it, or paste it in smaller pieces.",
                kind="warning",
            )
        else:
            self._approve(question, Decision(granted=True, edited={COMMAND: line.text}))

    def _is_open(self, question: str) -> bool:
        return any(open.id == question for open in self._desk.open_questions())

    def _approve(self, question: str, decision: Decision) -> None:
        self._under_way.begin_guarded(self._desk.approve(question, decision))
