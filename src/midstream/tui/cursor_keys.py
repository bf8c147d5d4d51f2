"""What the arrows and Tab move: the mark in a list or a card, the marked question, the line itself."""

from midstream.tui.card_keys import CardKeys
from midstream.tui.delivery import Delivery
from midstream.tui.dialog import Dialog
from midstream.tui.editor import Editor
from midstream.tui.frames import Frames
from midstream.tui.scrollback import Scrollback
from midstream.tui.turn_keys import TurnKeys


class Moving:
    """The keys that move a mark, or bring a line back."""

    def __init__(
        self,
        dialog: Dialog,
        editor: Editor,
        *,
        frames: Frames,
        turns: TurnKeys,
        cards: CardKeys,
        delivery: Delivery,
        scrollback: Scrollback,
    ) -> None:
        self._dialog = dialog
        self._editor = editor
        self._frames = frames
        self._turns = turns
        self._cards = cards
        self._delivery = delivery
        self._scrollback = scrollback

    def takes_arrows(self) -> bool:
        """Return whether arrows are for the list of turns, or the card of a question."""
        if self._dialog.turns is not None:
            return self._turns.takes_arrows()
        return self._cards.takes_arrows()

    def arrow(self, step: int) -> None:
        """Move within the list or the card by Up (-1) or Down (1), else as ever."""
        if self._turns.arrow(step):
            self._scrollback.redraw()
            return
        if step < 0 and self.brings_back and not self._cards.is_marked():
            self.up()
        elif self._cards.arrow(step):
            self._scrollback.redraw()
        elif step < 0:
            self.up()
        else:
            self._editor.buffer.auto_down()

    @property
    def brings_back(self) -> bool:
        """Return whether Up on an empty line has a line to bring back that was not delivered."""
        return bool(self._editor.returned or self._delivery.waits)

    def up(self) -> None:
        """Bring a line back: one that came back, one that still waits, or one of the history."""
        if self._editor.is_empty and not self._editor.returned and self._delivery.waits:
            self._delivery.take_back()
        else:
            self._editor.up()

    def next_question(self) -> None:
        """Mark the next question."""
        if self._frames.screen is not None:
            if self._dialog.answering.filling:
                self._cards.escape()
            self._dialog.mark_next(self._frames.screen.questions)
