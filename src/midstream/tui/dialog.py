"""What stands open over the editor, and what a line or a key pressed now is about. No IO.

A person reads the screen, then presses a key; between the two the screen may change. So a decision
counts only on what has been drawn for a while when its key comes, and the two moments kept here
(`decidable`, `UnclearLine.since`) are when it was first drawn, not when it was asked.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from midstream.core.question import Question
from midstream.tui.answering import Answering
from midstream.tui.editor import Typed
from midstream.tui.turn_list import TurnList

_PAUSE_S: Final = 0.03
"""Between two keys of a person there is more; between two of a paste, less."""


class UnclearLine(msgspec.Struct):
    """A line begun before the question was asked; `since` is when the choice was first drawn."""

    line: Typed
    question: str
    is_echoed: bool
    since: float | None = None


class Mark(msgspec.Struct, kw_only=True):
    """A choice of an approval that an arrow marked, by its letter.

    It belongs to that `question` alone, and to the very next key: `press` counts the one it came
    with. `since` is when it was first drawn.
    """

    question: str
    choice: str
    press: int
    since: float | None = None


class Dialog(msgspec.Struct, kw_only=True):
    """The marked question and what is asked of the person. Times are the loop's, in seconds.

    `focus` is the marked question's id, `noting` that of the approval a note is typed for and `editing`
    that of the one whose command, or where it `edits_plan` whose plan, is being changed, "" for none.
    `decidable` is the marked approval on
    the screen, and since when, `mark` the choice of it that Enter takes. `answering` holds the lists
    and forms of the questions. `recalled` is the line that was taken back and stands in the editor,
    `begun_at` when the line there was begun.
    `news` is what the last key changed, told in the bottom line until the next one. `turns` is the open
    list of earlier turns. `outlived` is the workflow that ended before the line was sent, "" for none.
    `drawn` are the questions with a card on the screen, `presses` is how many keys were pressed and
    `pressed_at` when the last one was.
    """

    focus: str = ""
    noting: str = ""
    editing: str = ""
    edits_plan: bool = False
    unclear: UnclearLine | None = None
    decidable: tuple[str, float] = ("", 0.0)
    mark: Mark | None = None
    leave_offered: bool = False
    leave_until: float = 0.0
    edited_at: float = 0.0
    answering: Answering = msgspec.field(default_factory=Answering)
    recalled: str = ""
    begun_at: float = 0.0
    news: str = ""
    turns: TurnList | None = None
    outlived: str = ""
    drawn: frozenset[str] = frozenset()
    presses: int = 0
    pressed_at: float = 0.0

    def pressed(self, *, now: float) -> None:
        """Take note that a key is pressed."""
        self.pressed_at = now
        self.presses += 1
        self.news = ""

    def begun(self, *, now: float) -> frozenset[str]:
        """Take note that a line is begun; return the questions it is begun under."""
        self.begun_at = now
        return self.drawn

    def offer_leave(self, *, until: float) -> None:
        """Say that the same key leaves if it comes next, and before the time `until`."""
        self.leave_offered, self.leave_until = True, until

    def may_leave(self, *, now: float) -> bool:
        """Return whether the key that was said to leave does."""
        return self.leave_offered and now < self.leave_until

    def keep_to(self, questions: Sequence[Question]) -> None:
        """Forget what is about a question nobody asks any more, and mark one that is open."""
        self.answering.keep_to(questions)
        ids = [question.id for question in questions]
        if self.focus not in ids:
            self.focus = ids[0] if ids else ""
        if self.noting not in ids:
            self.noting = ""
        if self.editing not in ids:
            self.editing = ""
        if self.unclear is not None and self.unclear.question not in ids:
            self.unclear = None  # Nobody asks any more: Enter sends the line as it stands.

    def mark_next(self, questions: Sequence[Question]) -> None:
        """Mark the question after the marked one, the first after the last."""
        ids = [question.id for question in questions]
        if ids:
            position = ids.index(self.focus) if self.focus in ids else -1
            self.focus = ids[(position + 1) % len(ids)]

    def edited(self, text: str, *, now: float = 0.0) -> None:
        """Take note that the editor holds `text` now: another line than the unclear one ends it."""
        self.leave_offered = False
        self.edited_at = now
        if self.turns is not None and not self.turns.means(text, now=now):
            self.turns = None  # Somebody writes: the line is words.
        if text != self.recalled:
            self.recalled = ""
        if text:
            self.mark = None
        else:
            self.outlived = ""
        if self.unclear is not None and text != self.unclear.line.shown:
            self.unclear = None

    def keep_turns_of(self, run: str, *, rests: bool) -> None:
        """Close the list of turns where another run is the active one, or something goes on there."""
        if self.turns is not None and (not rests or self.turns.run != run):
            self.turns = None

    def has_paused(self, now: float) -> bool:
        """Return whether a key that comes now is none of those that typed the line: no paste's last."""
        return now - self.edited_at >= _PAUSE_S

    def close(self) -> None:
        """Close the note, the change and the choice about an unclear line; the line stays as it is."""
        self.unclear, self.noting, self.editing = None, "", ""

    def covered(self) -> None:
        """Take note that the screen was another program's: what is drawn after it is drawn anew."""
        self.decidable, self.mark = ("", 0.0), None
        self.answering.covered()
        if self.turns is not None:
            self.turns.since = None
        if self.unclear is not None:
            self.unclear.since = None

    @property
    def is_open(self) -> bool:
        """Return whether the line is for something that stands open over the editor."""
        return bool(
            self.unclear is not None or self.noting or self.editing or self.answering.filling
        )

    def asked(self, questions: Sequence[Question]) -> Question | None:
        """Return the marked question if words answer it."""
        return self._marked(questions, "question")

    def approval(self, questions: Sequence[Question]) -> Question | None:
        """Return the marked question if it is an approval."""
        return self._marked(questions, "approval")

    def _marked(self, questions: Sequence[Question], kind: str) -> Question | None:
        marked = (each for each in questions if each.id == self.focus and each.kind == kind)
        return next(marked, None)

    def was_drawn(
        self, questions: Sequence[Question], *, drawn: frozenset[str], now: float
    ) -> None:
        """Take note that a frame with the cards `drawn` is on the screen."""
        self.drawn = drawn
        self.answering.was_drawn(drawn, now)
        if self.turns is not None and self.turns.since is None:
            self.turns.since = now
        approval = self.approval(questions)
        if approval is None or approval.id not in drawn:
            self.decidable = ("", 0.0)
        elif self.decidable[0] != approval.id:
            self.decidable = (approval.id, now)
        if self.mark is not None and self.mark.since is None and self.marked(approval):
            self.mark.since = now
        if self.unclear is not None and self.unclear.since is None:
            self.unclear.since = now

    def marked(self, approval: Question | None) -> str:
        """Return the marked choice of an approval, "" for none: any key but an arrow ends the mark."""
        mark = self.mark
        if mark is None or approval is None or self.is_open:
            return ""
        is_its = mark.question == approval.id and mark.press == self.presses
        return mark.choice if is_its else ""

    def move_mark(self, approval: Question, choices: str, step: int) -> None:
        """Mark the next choice of an approval by 1 or the one before by -1; the last arrow's goes on."""
        at = -1 if step > 0 else len(choices)
        since = None
        if self.mark is not None and self.is_next(self.mark) and self.mark.question == approval.id:
            at, since = choices.find(self.mark.choice), self.mark.since
        moved = min(max(at + step, 0), len(choices) - 1)
        self.mark = Mark(
            question=approval.id,
            choice=choices[moved],
            press=self.presses,
            since=since if moved == at else None,
        )

    def unmark(self) -> bool:
        """Mark no choice of an approval any more; return whether the key found one."""
        mark, self.mark = self.mark, None
        return mark is not None and self.is_next(mark) and mark.question == self.focus

    def is_next(self, mark: Mark) -> bool:
        """Return whether the key pressed now is the first behind the one that marked."""
        return self.presses == mark.press + 1

    def may_decide(self, questions: Sequence[Question], *, now: float, fresh_s: float) -> bool:
        """Return whether a key decides: the marked approval, and no other dialog, is on the screen.

        It counts once its card has been drawn for `fresh_s`, so that no key meant for what stood
        there before decides.
        """
        approval = self.approval(questions)
        known, since = self.decidable
        return (
            approval is not None
            and not self.noting
            and not self.editing
            and self.unclear is None
            and known == approval.id
            and now - since >= fresh_s
        )

    def may_choose(self, *, now: float, fresh_s: float) -> bool:
        """Return whether the choice about an unclear line has been on the screen for `fresh_s`."""
        unclear = self.unclear
        return unclear is not None and unclear.since is not None and now - unclear.since >= fresh_s
