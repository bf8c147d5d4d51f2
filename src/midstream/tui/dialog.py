"""What stands open over the editor, and what a line or a key pressed now is about. No IO."""

from collections.abc import Hashable, Sequence
from typing import Final, Literal

import msgspec

from midstream.core.question import Question
from midstream.tui.answering import Answering
from midstream.tui.editor import Typed
from midstream.tui.turn_list import TurnList

_PAUSE_S: Final = 0.03
"""Between two keys of a person there is more; between two of a paste, less."""


class UnclearLine(msgspec.Struct, eq=False):
    """A line begun before the question was asked: one key says what it is."""

    line: Typed
    question: str
    is_echoed: bool


class Writing(msgspec.Struct, eq=False):
    """What is typed is for an approval: why not, or its command or plan as it should be."""

    question: str
    what: Literal["note", "command", "plan"]


class Mark(msgspec.Struct, kw_only=True, eq=False):
    """A choice of an approval that an arrow marked, by its letter. It belongs to that `question` alone."""

    question: str
    choice: str


class Dialog(msgspec.Struct, kw_only=True):
    """The marked question and what is asked of the person. Times are the loop's, in seconds.

    `focus` is the marked question's id, "" for none, and `over` what a line is for that is not for a run.
    `answering` holds the lists and forms of the questions. `recalled` is the line that was taken back and
    stands in the editor, `begun_at` when the line there was begun. `turns` is the open list of earlier
    turns. `outlived` is the workflow that ended before the line was sent, "" for none. `drawn` are the
    questions with a card on the screen, `pressed_at` is when the last key was pressed.

    What the last key came to lasts until the next: `mark` is the choice of an approval that Enter takes
    then, `news` stands in the bottom line, `did` is a word for what the same key goes on from. A key that
    is pressed finds them as `was_marked` and `before`.
    """

    focus: str = ""
    over: UnclearLine | Writing | None = None
    mark: Mark | None = None
    was_marked: Mark | None = None
    leave_offered: bool = False
    edited_at: float = 0.0
    answering: Answering = msgspec.field(default_factory=Answering)
    recalled: str = ""
    begun_at: float = 0.0
    news: str = ""
    did: str = ""
    before: str = ""
    turns: TurnList | None = None
    outlived: str = ""
    drawn: frozenset[str] = frozenset()
    pressed_at: float = 0.0

    def pressed(self, *, now: float) -> None:
        """Take note that a key is pressed."""
        self.pressed_at = now
        self.was_marked, self.mark = self.mark, None
        self.before, self.did = self.did, ""
        self.news = ""

    def begun(self, *, now: float) -> frozenset[str]:
        """Take note that a line is begun; return the questions it is begun under."""
        self.begun_at = now
        return self.drawn

    def is_fresh(self, thing: Hashable, *, now: float) -> bool:
        """Return whether a key pressed now may be about something on the screen; see `OnScreen`."""
        return self.answering.on_screen.is_fresh(thing, now=now)

    def keep_to(self, questions: Sequence[Question]) -> None:
        """Forget what is about a question nobody asks any more, and mark one that is open."""
        self.answering.keep_to(questions)
        ids = [question.id for question in questions]
        if self.focus not in ids:
            self.focus = ids[0] if ids else ""
        if self.over is not None and self.over.question not in ids:
            self.over = None  # Nobody asks any more: Enter sends the line as it stands.

    def mark_next(self, questions: Sequence[Question]) -> None:
        """Mark the question after the marked one, the first after the last."""
        ids = [question.id for question in questions]
        if ids:
            position = ids.index(self.focus) if self.focus in ids else -1
            self.focus = ids[(position + 1) % len(ids)]

    def edited(self, text: str, *, now: float = 0.0) -> None:
        """Take note that the editor holds `text` now: another line than the unclear one ends it."""
        self.edited_at = now
        turns = self.turns
        if turns is not None and not turns.means(text, is_fresh=self.is_fresh(turns, now=now)):
            self.turns = None  # Somebody writes: the line is words.
        if text != self.recalled:
            self.recalled = ""
        if text:
            self.mark = None
        else:
            self.outlived = ""
        if isinstance(self.over, UnclearLine) and text != self.over.line.shown:
            self.over = None

    def keep_turns_of(self, run: str, *, rests: bool) -> None:
        """Close the list of turns where another run is the active one, or something goes on there."""
        if self.turns is not None and (not rests or self.turns.run != run):
            self.turns = None

    def has_paused(self, now: float) -> bool:
        """Return whether a key that comes now is none of those that typed the line: no paste's last."""
        return now - self.edited_at >= _PAUSE_S

    def covered(self) -> None:
        """Take note that the screen was another program's: what is drawn after it is drawn anew."""
        self.mark = None
        self.answering.on_screen.covered()

    @property
    def is_open(self) -> bool:
        """Return whether the line is for something that stands open over the editor."""
        return self.over is not None or bool(self.answering.filling)

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
        self,
        questions: Sequence[Question],
        *,
        drawn: frozenset[str],
        now: float,
        offer: Hashable = None,
        came_back: Hashable = None,
    ) -> None:
        """Take note that a frame with the cards `drawn` is on the screen, with an `offer`, and with a line
        that `came_back`.
        """
        self.drawn = drawn
        approval = self.approval(questions)
        decidable = approval is not None and approval.id in drawn and _decides(approval)
        mark = self.marked(approval) and self.mark
        others = (decidable, mark, self.over, self.turns, offer, came_back)
        self.answering.on_screen.frame((*drawn, *filter(None, others)), now=now)

    def marked(self, approval: Question | None) -> str:
        """Return the marked choice of an approval, "" for none: any key but an arrow ends the mark."""
        mark = self.mark
        is_its = mark is not None and approval is not None and mark.question == approval.id
        return mark.choice if mark is not None and is_its and not self.is_open else ""

    def move_mark(self, approval: Question, choices: str, step: int) -> None:
        """Mark the next choice of an approval by 1 or the one before by -1; the last arrow's goes on."""
        mark, at = self.was_marked, -1 if step > 0 else len(choices)
        if mark is not None and mark.question == approval.id:
            at = choices.find(mark.choice)
        moved = min(max(at + step, 0), len(choices) - 1)
        # At either end it is the same mark, and as old as it was.
        is_same = mark is not None and moved == at
        self.mark = mark if is_same else Mark(question=approval.id, choice=choices[moved])

    def unmark(self) -> bool:
        """Return whether the key found a choice of the marked approval marked; it ends the mark."""
        return self.was_marked is not None and self.was_marked.question == self.focus

    def may_decide(self, questions: Sequence[Question], *, now: float) -> bool:
        """Return whether a key decides: the marked approval, and no other dialog, is on the screen.

        It counts once its card has been there, marked, for a while, so that no key meant for what stood
        there before decides.
        """
        approval = self.approval(questions)
        return (
            approval is not None
            and self.over is None
            and self.is_fresh(_decides(approval), now=now)
        )

    def may_choose(self, *, now: float) -> bool:
        """Return whether the choice about an unclear line has been on the screen for a while."""
        return isinstance(self.over, UnclearLine) and self.is_fresh(self.over, now=now)


def _decides(approval: Question) -> Hashable:
    """Return what stands on the screen while a key decides on an approval: its card, marked."""
    return ("marked", approval.id)
