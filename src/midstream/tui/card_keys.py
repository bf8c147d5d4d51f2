"""What Enter, the arrows, Space and Esc do while a question's list or form is under them.

Every method says whether the key was ours; where it was not it means what it always means.
"""

from collections.abc import Callable, Sequence
from typing import Final

from midstream.core.question import Question
from midstream.tui.answering import Answered, Step
from midstream.tui.dialog import Dialog
from midstream.tui.editor import Editor, is_command

MINE: Final = True


class CardKeys:
    """Keys on their way to the lists and forms of a dialog."""

    def __init__(
        self,
        dialog: Dialog,
        editor: Editor,
        *,
        questions: Callable[[], Sequence[Question]],
        now: Callable[[], float],
        say: Callable[[str], None],
        answer: Callable[[Answered], None],
    ) -> None:
        """Make one. `questions` are those open now; `say` tells a note, `answer` delivers one."""
        self._dialog = dialog
        self._editor = editor
        self._questions = questions
        self._now = now
        self._say = say
        self._answer = answer

    def _asked(self) -> Question | None:
        """Return the marked question, if its list or form may have keys now."""
        is_taken = self._dialog.noting or self._dialog.editing or self._dialog.unclear is not None
        return None if is_taken else self._dialog.asked(self._questions())

    def enter_marked(self, *, alone: bool, quiet: bool) -> bool:
        """Take Enter for an open form, or for a choice that is marked; more of a budget is allowed
        only where it is `quiet`.
        """
        answering = self._dialog.answering
        text = self._editor.buffer.text
        if answering.filling:
            if is_command(text):
                return not MINE
            # Typed ahead, lines may come together; an Enter without one decides only if it is alone.
            if alone or text.strip():
                self._do(answering.enter(None, self._editor.unfolded(), now=self._now()))
            return MINE
        asked = self._asked()
        if not alone or not self._editor.is_empty or not answering.marks(asked):
            return not MINE
        if asked is not None and asked.about == "budget" and not quiet:
            return MINE
        return self._do(answering.enter(asked, "", now=self._now()))

    def enter_empty(self, *, alone: bool) -> bool:
        """Take Enter on an empty line: it opens the form of the marked question."""
        asked = self._asked()
        if not alone or asked is None or not self._editor.is_empty:
            return not MINE
        return self._do(self._dialog.answering.enter(asked, "", now=self._now()))

    def takes_arrows(self) -> bool:
        """Return whether arrows are for a card: its form is open, or its list is under an empty line."""
        answering, asked = self._dialog.answering, self._asked()
        if answering.filling:
            return not answering.is_closed
        return (
            self._editor.is_empty
            and asked is not None
            and answering.is_fresh(asked.id, self._now())
            and answering.list_of(asked) is not None
        )

    def is_marked(self) -> bool:
        """Return whether an arrow has marked a choice, or a form is open."""
        return bool(self._dialog.answering.filling) or self._dialog.answering.marks(self._asked())

    def arrow(self, step: int) -> bool:
        """Take Up (-1) or Down (1)."""
        buffer = self._editor.buffer
        row, last = buffer.document.cursor_position_row, buffer.document.line_count - 1
        if (step < 0 and row > 0) or (step > 0 and row < last):
            return not MINE
        answering = self._dialog.answering
        text = self._editor.unfolded()
        return self._do(answering.arrow(self._asked(), text, step, now=self._now()))

    def may_pick(self) -> bool:
        """Return whether Space picks the marked choice."""
        return self._editor.is_empty and self._dialog.answering.picks(self._asked())

    def pick(self) -> None:
        """Pick the marked choice, or no more."""
        self._dialog.answering.pick(self._asked())

    def escape(self) -> bool:
        """Leave the form, or mark nothing any more."""
        answering = self._dialog.answering
        if answering.filling:
            return self._do(answering.leave(self._editor.unfolded()))
        asked = self._asked()
        if not self._editor.is_empty or not answering.marks(asked):
            return not MINE
        answering.unmark(asked)
        return MINE

    def leave_closed(self) -> None:
        """Leave a form whose question has closed meanwhile, unless something is being typed into it.

        What forms held that were left before that comes back with Up.
        """
        answering = self._dialog.answering
        while answering.let_go:
            number, filled = answering.let_go.pop(0)
            self._editor.offer(filled)
            self._say(f"#{number} is closed. Up brings back what you had filled in.")
        if not answering.filling or not answering.is_closed or not self._editor.is_empty:
            return
        filled, number = answering.what_was_filled_in(), answering.number()
        answering.leave("")
        if filled:
            self._editor.offer(filled)
            self._say(f"#{number} is closed. Up brings back what you had filled in.")

    def _do(self, step: Step | None) -> bool:
        if step is None:
            return not MINE
        if step.line is not None and step.line != self._editor.unfolded():
            self._editor.replace(step.line)
        if step.says:
            self._say(step.says)
        if step.answer is not None:
            self._answer(step.answer)
        return MINE
