"""Lines on their way to the session: delivered, answered, brought back, taken back.

Typed text is never lost. A line without effect comes back into the editor, or, when something newer
stands there, waits for the Up key.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from midstream.app.ui import Console, come_of
from midstream.core.events import InputDisposed, InputReceived
from midstream.core.notices import Envelope
from midstream.core.routing import Destination, Returned, Route, Unclear, as_typed
from midstream.language.names import Policy
from midstream.tui.answering import Answered
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.completion import words_of
from midstream.tui.dialog import Dialog, UnclearLine
from midstream.tui.editor import Editor, Typed
from midstream.tui.event_lines import typed
from midstream.tui.scrollback import Scrollback

_BROUGHT_BACK: Final = " (Up on an empty line brings it back)"


class Undelivered:
    """The lines that runs took and have not delivered yet: what a run ends without, Up brings back."""

    def __init__(self, editor: Editor, scrollback: Scrollback) -> None:
        self._editor = editor
        self._scrollback = scrollback
        self._taken: dict[tuple[str, str], str] = {}

    def on_event(self, envelope: Envelope) -> None:
        """Keep a line that its run ended without: the next run may be told it."""
        event, run = envelope.event, envelope.run
        if isinstance(event, InputReceived):
            if event.handling not in ("reject", "answer"):
                self._taken[run, event.input_id] = as_typed(event.text, event.to)
        elif isinstance(event, InputDisposed):
            text = self._taken.pop((run, event.input_id), None)
            if text is not None and event.disposition == "rejected":
                self._editor.offer(text)
                self._scrollback.say("Up on an empty line brings it back.", kind="note")


class Delivery:
    """Hands lines to the session, and takes back what has no effect."""

    def __init__(
        self,
        session: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        scrollback: Scrollback,
        background: BackgroundTasks,
        leave: Callable[[], None],
    ) -> None:
        """Make one. `leave` is what a line that says so does."""
        self._session = session
        self._dialog = dialog
        self._editor = editor
        self._scrollback = scrollback
        self._background = background
        self._leave = leave

    # --- there ------------------------------------------------------------------------------

    def route(self, line: Typed, *, answers: str = "", is_new: bool = False) -> Route | None:
        """Return whom a line is for, by what was on the screen when it was begun; see `Console.route`."""
        return self._session.route(
            words_of(line.text),
            seen=line.seen,
            focused=self._dialog.focus,
            answers=answers,
            is_new=is_new,
        )

    def deliver(
        self,
        line: Typed,
        to: Route | None,
        *,
        is_echoed: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """Hand over a line to whom it is for (`route`), or bring it back.

        `is_echoed`: it stands above the prompt already.
        """
        if isinstance(to, Unclear):
            self._ask_whether(line, to.question, is_echoed=is_echoed)
            self._editor.arrived(line)
            self._scrollback.redraw()
            return
        # A line that interrupts is echoed when it has: it stands behind what it cuts off.
        waits = isinstance(to, Destination) and policy is None and self._session.interrupts(to)
        if not waits and not is_echoed:
            self.echo(line)
            is_echoed = True
        if isinstance(to, Returned):
            self._come_back(line, to.reason)
            self._editor.arrived(line)
            self._scrollback.redraw()
            return
        self._background.begin(self._submit(line, to, is_echoed=is_echoed, policy=policy))

    def answer(self, answer: Answered, *, line: Typed | None = None) -> None:
        """Hand over an answer that was chosen or filled in, or named by a `line`."""
        self._background.begin(self._answer(answer, line=line))

    def echo(self, line: Typed) -> None:
        """Print a line above the prompt as it was typed."""
        self._scrollback.add([*typed(line.shown)])

    async def _submit(
        self, line: Typed, to: Destination | None, *, is_echoed: bool, policy: Policy | None
    ) -> None:
        try:
            if to is None:
                result = await come_of(self._session.submit(line.text, seen=line.seen))
            else:
                result = await come_of(self._session.send(to, seen=line.seen, policy=policy))
        except asyncio.CancelledError:
            self._scrollback.say(f"Not delivered, you left first: {line.shown}", kind="warning")
            raise
        if result.kind in ("taken", "exit") and not is_echoed:
            self.echo(line)
        match result.kind:
            case "taken":
                pass
            case "exit":
                self._leave()
            case "returned":
                self._come_back(line, result.reason, to_mend=result.to_mend)
            case "unclear":
                self._ask_whether(line, result.question, is_echoed=is_echoed)
        self._editor.arrived(line)
        self._scrollback.redraw()

    async def _answer(self, answer: Answered, *, line: Typed | None) -> None:
        """Deliver an answer; why it does not fit is shown beside it."""
        self._scrollback.add([*typed(answer.echo if line is None else line.shown)])
        seen = frozenset({answer.question})
        text = f"/{answer.text}" if answer.text.startswith("/") else answer.text
        to = self._session.route(text, seen=seen, answers=answer.question)
        reason = to.reason if isinstance(to, Returned) else ""
        if isinstance(to, Destination):
            result = await come_of(self._session.send(to, seen=seen))
            reason = "" if result.kind == "taken" else result.reason
        if not self._dialog.answering.sent(answer.question, reason) and reason:
            where = "" if line is None or self._bring_back(line) else _BROUGHT_BACK
            self._scrollback.say(f"{reason}{where}", kind="warning")
        if line is not None:
            self._editor.arrived(line)
        self._scrollback.redraw()

    # --- and back ---------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Return whether some line was taken and is not delivered yet."""
        return bool(self._session.waiting_inputs())

    def take_back(self) -> None:
        """Take the newest line that waits back into the editor, to be changed."""
        self._background.begin_guarded(self._take_back())

    def withdraw(self) -> None:
        """Withdraw the newest line that waits."""
        self._background.begin_guarded(self._withdraw())

    def _come_back(self, line: Typed, reason: str, *, to_mend: bool = True) -> None:
        """Put a line without effect back into the editor, and say why."""
        # What is not to be mended the history has, unless it is too long: Up brings it like any other line.
        is_back = (not to_mend and self._editor.remembers(line)) or self._bring_back(line)
        self._scrollback.say(f"{reason}{'' if is_back else _BROUGHT_BACK}", kind="warning")

    def _ask_whether(self, line: Typed, question: str, *, is_echoed: bool) -> None:
        """Let one key say whether a line is the answer to a question that came up under it."""
        if self._bring_back(line):
            self._dialog.over = UnclearLine(line, question, is_echoed)
        else:
            text = "A question came before your last line was sent; Up on an empty line"
            self._scrollback.say(f"{text} brings it back.", kind="warning")

    def _bring_back(self, line: Typed) -> bool:
        """Put a line back into the editor, unless that is in use; Up brings it then."""
        if self._dialog.is_open:
            self._editor.returned.append(line)
            return False
        return self._editor.bring_back(line, unasked=True)

    async def _take_back(self) -> None:
        text = await self._session.take_back()
        if text is None:
            self._scrollback.say("It is on its way already.", kind="note")
        else:
            self._editor.offer(text)
            if self._editor.is_empty and not self._dialog.is_open:
                self._editor.up()
                self._dialog.recalled = self._editor.buffer.text

    async def _withdraw(self) -> None:
        text = await self._session.take_back()
        if text is not None:
            self._editor.offer(text)
            self._scrollback.say(f"Withdrawn: {text}{_BROUGHT_BACK}", kind="note")
