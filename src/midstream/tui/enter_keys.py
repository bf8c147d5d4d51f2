"""What Enter and Tab do with the line: whose it is, and when it is delivered.

Enter asks everybody who may have it, one after the other: an unclear line, the list of turns, an
approval's note, a card, the person's own shell. What nobody has is words for the session.
"""

import asyncio

import msgspec

from midstream.core.routing import is_command
from midstream.language.names import Policy
from midstream.tui import approval_keys, card_keys
from midstream.tui.completion import is_own
from midstream.tui.editor import Typed
from midstream.tui.frame_rows import chosen_by, may_queue
from midstream.tui.prompt import Prompt


class Sending:
    """Enter, Ctrl-Enter, Tab, and the keys that say what an unclear line is."""

    def __init__(self, at: Prompt) -> None:
        self._at = at
        self._session = at.session
        self._dialog = at.dialog
        self._editor = at.editor
        self._own = at.own
        self._delivery = at.delivery
        self._scrollback = at.scrollback
        self._background = at.background
        self._fresh_s = at.fresh_s

    def send(self, *, alone: bool, quiet: bool) -> None:
        """Send the line, or whatever Enter means now; an empty line does nothing.

        `alone`: no other key came with this one; `quiet`: nor is it where it may be a piece of what the
        terminal says. Only what allows, spends or takes back asks for that.
        """
        self._dialog.leave_offered = False
        if self._dialog.unclear is not None:
            return
        if card_keys.enter_turns(self._at, alone=alone and quiet) or approval_keys.enter(
            self._at, alone=alone, quiet=quiet
        ):
            return
        text = self._editor.buffer.text
        if card_keys.enter_marked(self._at, alone=alone, quiet=quiet):
            self._scrollback.redraw()
        elif is_own(text):
            self._own.enter(self._session, self._background.tasks)
        elif text.strip():
            self._own.drop()
            if not self._outlived(text):
                self._send_words()
        elif (
            alone and card_keys.takes_offer(self._at) and self._own.is_fresh(fresh_s=self._fresh_s)
        ):
            self._own.join()
        elif not card_keys.enter_empty(self._at, alone=alone):
            self._editor.clear()
            if alone and quiet and self._session.status().on_empty:
                self._background.begin_guarded(self._session.go_on())

    def _outlived(self, text: str) -> bool:
        """Return whether a line stays: its workflow ended since the last one, and somebody else is next.

        It is said, once; the next Enter sends it.
        """
        ended, self._dialog.outlived = self._dialog.outlived, ""
        if not ended or is_command(text):
            return False
        enter = self._session.status().enter
        self._scrollback.say(f"{ended} has ended. Enter now {enter}.", kind="note")
        return True

    def _send_words(self) -> None:
        """Deliver the line: to the question it answers, or to whom it is for."""
        line = self._answerable(self._editor.take())
        to = self._delivery.route(line)
        chosen = chosen_by(self._session.open_questions(), self._dialog, to)
        if chosen is not None and not chosen[0].choices:
            # What stands for a value in the list, such as "yes", is that value.
            self._delivery.answer(self._dialog.answering.chosen(*chosen), line=line)
        else:
            self._delivery.deliver(line, to)

    def _answerable(self, line: Typed) -> Typed:
        """Return the line, without the questions its first key came too early for.

        A lone number chooses from a list; one that was begun as the list came up was meant for
        something else.
        """
        if not line.text.strip().isdigit():
            return line
        drawn_at = self._dialog.answering.drawn_at
        early = {
            question.id
            for question in self._session.open_questions()
            if (at := drawn_at(question.id)) is not None
            and self._dialog.begun_at - at < self._fresh_s
        }
        return msgspec.structs.replace(line, seen=line.seen - early)

    # --- while something runs ---------------------------------------------------------------

    def may_queue(self) -> bool:
        """Return whether Tab queues the line."""
        screen = self._at.screen
        return screen is not None and may_queue(screen, self._dialog, self._editor)

    def queue(self, *, alone: bool) -> None:
        """Let the line wait until what runs is done; a Tab among pasted text does nothing."""
        if alone and self._dialog.has_paused(asyncio.get_running_loop().time()):
            self._send_as("queue")

    def _send_as(self, policy: Policy) -> None:
        line = self._editor.take()
        self._delivery.deliver(line, self._delivery.route(line, is_new=True), policy=policy)

    def steer(self, *, alone: bool, quiet: bool) -> None:
        """Let the line join the next request of what runs; where nothing does, send it."""
        if self.may_queue():
            self._send_as("steer")
        else:
            self.send(alone=alone, quiet=quiet)

    # --- an unclear line --------------------------------------------------------------------

    def may_choose(self, *, alone: bool) -> bool:
        """Return whether a key pressed now says what the unclear line is."""
        now = asyncio.get_running_loop().time()
        return alone and self._dialog.may_choose(now=now, fresh_s=self._fresh_s)

    def choose(self, choice: str) -> None:
        """Send the unclear line as an answer (a) or a new instruction (n), or keep it (e)."""
        unclear, self._dialog.unclear = self._dialog.unclear, None
        if unclear is None or choice == "e":
            self._editor.touched()
            self._scrollback.redraw()
            return
        line = msgspec.structs.replace(self._editor.take(), seen=unclear.line.seen)
        answers = unclear.question if choice == "a" else ""
        to = self._delivery.route(line, answers=answers, is_new=not answers)
        self._delivery.deliver(line, to, is_echoed=unclear.is_echoed)
