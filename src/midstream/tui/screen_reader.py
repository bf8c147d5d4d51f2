"""ScreenReaderUI: the console as plain lines for a person whose screen is read to them.

Nothing is drawn twice and the cursor is never moved: the terminal itself edits the line that is typed, and
each thing that happens is a line, once. Words that stream come by lines and sentences, as these are whole.

The terminal hands over whole lines, so nobody knows when a line was begun. Two rules make up for that.
A line answers only a question that was there when the line before it was sent. And an approval is
decided by a key, never by a line: Enter on an empty line has the terminal give single keys, and one
that comes alone, once the request for it has been out for a while, decides.
"""

import asyncio
import codecs
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from midstream.app.ui import Console, come_of
from midstream.core import events as e
from midstream.core.notices import AgentThinking, Envelope, TextDelta
from midstream.core.question import Decision, Question
from midstream.tui.event_lines import SPEAKER, Block, Words
from midstream.tui.on_screen import FRESH_S
from midstream.tui.pipes import STDIN, STDOUT, unread
from midstream.tui.plain_lines import PlainUI, soon
from midstream.tui.styled_lines import Line
from midstream.views.calls_in_words import question_heading

ALONE_S: Final = 0.1
"""A key came alone if nothing followed it for so long: what is pasted follows at once."""

WRITES_S: Final = 3.0
"""Seconds after which it is said that an agent writes the arguments of a call."""

_ENDS: Final = re.compile(r"[.!?…:][\"')\]*_]*(?=\s)")
_KEYS_NOT_TEXT: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]")
_SAYS: Final = {
    "y": "y allows it once",
    "r": "r allows it for this run",
    "n": "n refuses",
}
_PLAN_SAYS: Final = {"y": "y approves it", "a": "a approves it in the mode auto", "n": "n refuses"}


class ScreenReaderUI(PlainUI):
    """Prints plain lines to a terminal and takes the lines a person types there."""

    def __init__(self, *, stdin: int = STDIN, stdout: int = STDOUT) -> None:
        """Make one over a terminal's two file descriptors, which stay open."""
        super().__init__(stdin=stdin, stdout=stdout)
        self._fd = stdin
        self._session: Console | None = None
        self._lines: asyncio.Queue[tuple[str | None, frozenset[str]]] = asyncio.Queue()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._seen: frozenset[str] = frozenset()
        self._enter = ""
        self._is_telling = False
        self._may_leave = False
        self._deciding: Question | None = None
        self._asked_at: float | None = None
        self._key: tuple[bytes, asyncio.TimerHandle] | None = None
        self._modes: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._writing: dict[tuple[str, str, str], asyncio.TimerHandle] = {}
        self._last: Block | None = None
        self._speaker: Block | None = None

    # --- what is said -----------------------------------------------------------------------

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run, its streaming words by lines and sentences; see `UI.show`."""
        event = envelope.event
        if isinstance(event, TextDelta):
            if not is_behind:
                self._stream(envelope.run, event)
            return
        agent = getattr(event, "agent", "")
        key = (envelope.run, event.branch, agent)
        if isinstance(event, AgentThinking):
            if not (event.status or event.calling):
                self._heard.pop(key, None)
            if event.calling and not is_behind:
                self._writes(key, event.calling)
        elif isinstance(event, e.AgentResponded | e.Interrupted | e.ReplyCut | e.AgentFailed):
            told, _ = self._heard.pop(key, ("", ""))
            self._end_writing(key if event.agent else None)
            field = "text" if isinstance(event, e.AgentResponded) else "partial"
            whole: str = getattr(event, field)
            if told and (whole.startswith(told) or told.startswith(whole)):
                left = msgspec.structs.replace(event, **{field: whole[len(told) :].lstrip(" ")})
                envelope = msgspec.structs.replace(envelope, event=left)
        super().show(envelope, is_behind=is_behind)
        self.refresh()

    def left(self) -> None:
        """Print what was not told yet of replies nobody hears the end of; see `UI.left`."""
        for (run, branch, agent), (_, rest) in self._heard.items():
            self._renderer.live.hears(
                run, TextDelta(branch=branch, agent=agent, text=rest.lstrip(" "))
            )
        self._heard.clear()
        super().left()

    def refresh(self) -> None:
        """Say what Enter will do, once it is something else."""
        if not self._is_telling and self._session is not None:
            self._is_telling = True
            soon(self._tell_enter)

    def _writes(self, key: tuple[str, str, str], name: str) -> None:
        """Say that an agent writes a call, where that takes a while: most calls are told a moment later."""

        def tell() -> None:
            self._writing.pop(key, None)
            self.say(f"{key[2]} is writing a call of {name}.", kind="note")

        self._end_writing(key)
        self._writing[key] = asyncio.get_running_loop().call_later(WRITES_S, tell)

    def _end_writing(self, key: tuple[str, str, str] | None = None) -> None:
        """Hear that a reply has ended (None: that all have)."""
        for each in [*self._writing] if key is None else [key]:
            if (timer := self._writing.pop(each, None)) is not None:
                timer.cancel()

    def _stream(self, run: str, delta: TextDelta) -> None:
        """Tell what is whole of the words so far: lines, and outside of code sentences."""
        key = (run, delta.branch, delta.agent)
        told, rest = self._heard.get(key, ("", ""))
        rest += delta.text
        end = rest.rfind("\n") + 1
        if (told + rest[:end]).count("```") % 2 == 0 and "`" not in rest[end:]:
            end = max([end, *(found.end() for found in _ENDS.finditer(rest, end))])
        whole = rest[:end]
        if whole.strip():
            self._print(self._renderer.streamed(run, delta, whole.lstrip(" ").rstrip("\n")))
            told, rest = told + whole, rest[end:]
        self._heard[key] = (told, rest)

    def _print(self, blocks: list[Block]) -> None:
        """Print blocks; who goes on speaking is not named again."""
        for block in blocks:
            is_name = isinstance(block, Line) and block.mark == SPEAKER
            if is_name and block == self._speaker and isinstance(self._last, Words):
                continue
            self._speaker = block if is_name else self._speaker
            self._last = block
            super()._print([block])

    def _tell_enter(self) -> None:
        self._is_telling = False
        if self._session is None:
            return
        enter = self._session.status().enter
        if enter != self._enter:
            self._enter = enter
            self.say(f"Enter {enter}.", kind="note")
        approval = self._approval()
        if approval is not None and approval.id not in self._seen and self._deciding is None:
            self._seen |= {approval.id}
            self.say(f"To decide on #{approval.number} press Enter on an empty line.")

    # --- what is typed ----------------------------------------------------------------------

    async def run(self, session: Console) -> None:
        """Hand over what is typed until the person leaves or the terminal is gone."""
        self._session = session
        keys = "Enter sends a line, Ctrl-C stops what is at work, Ctrl-D leaves, /help lists the commands."
        self.say(f"Screen reader mode. {keys}", kind="note")
        self.refresh()
        loop = asyncio.get_running_loop()
        self._modes = _modes_of(self._fd)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        loop.add_reader(self._fd, self._readable)
        try:
            while await self._take(session, *await self._lines.get()):
                pass
        finally:
            self._session = None
            loop.remove_reader(self._fd)
            loop.remove_signal_handler(signal.SIGINT)
            _set_modes(self._fd, self._modes)
            self._end_writing()
            for task in self._tasks:
                task.cancel()

    async def _take(self, session: Console, line: str | None, seen: frozenset[str]) -> bool:
        """Take a line; return whether there may be more."""
        approval = self._approval()
        if line is None:
            line = "/exit"
        elif line.strip() == "\x1b":
            self._begin(session.halt())
            return True
        elif not line.strip():
            self._empty(session, approval)
            return True
        elif approval is not None and line.strip().lower() in (*_SAYS, "a", "yes", "no"):
            self.say(f"Nothing is decided by {line.strip()}. Press Enter on an empty line first.")
            return True
        self._last = None
        result = await come_of(session.submit(line, seen=seen))
        if text := unread(line, result):
            self.say(text, kind="warning")
        self.refresh()
        return result.kind != "exit"

    def _empty(self, session: Console, approval: Question | None) -> None:
        status = session.status()
        if approval is not None:
            self._ask_key(approval)
        elif status.on_empty:
            self._begin(session.go_on())
        else:
            self.say(f"Enter {status.enter}.", kind="note")

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            data = b""
        if self._deciding is not None and data and self._is_key(data):
            return
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._lines.put_nowait((_KEYS_NOT_TEXT.sub("", line.removesuffix("\r")), self._seen))
            self._may_leave = False
            if self._session is not None:
                self._seen = frozenset(each.id for each in self._session.open_questions())
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._lines.put_nowait((None, frozenset()))

    def _interrupted(self) -> None:
        """Stop what is at work (Ctrl-C); where nothing is, a second one leaves."""
        self._rest = ""
        if self._deciding is not None:
            self._decide_no_more()
            self.say("Nothing is decided.")
        elif self._session is not None and self._session.status().busy:
            self._begin(self._session.halt())
        elif self._may_leave:
            self._lines.put_nowait((None, frozenset()))
        else:
            self._may_leave = True
            self.say("Nothing is at work. Ctrl-C again leaves.", kind="note")

    # --- approvals --------------------------------------------------------------------------

    def _approval(self) -> Question | None:
        asked = () if self._session is None else self._session.open_questions()
        return next((each for each in asked if each.kind == "approval"), None)

    def _ask_key(self, approval: Question) -> None:
        """Have the terminal give single keys, and say which decide."""
        _give_keys(self._fd)
        self._deciding, self._asked_at = approval, None
        says = _PLAN_SAYS if approval.about == "plan" else _SAYS
        keys = ", ".join(says.values())
        self.say(f"{question_heading(approval)}. One key: {keys}; any other decides nothing.")
        self._writer.write("", then=self._is_asked)

    def _is_asked(self) -> None:
        """Hear, from the writer's thread, that the terminal has taken the request for a key."""
        self._asked_at = time.monotonic()

    def _is_key(self, data: bytes) -> bool:
        """Return whether this may be a key that decides; it does once nothing has followed it."""
        asked = self._asked_at
        is_fresh = asked is not None and time.monotonic() - asked >= FRESH_S
        if self._key is None and len(data) == 1 and is_fresh:
            timer = asyncio.get_running_loop().call_later(ALONE_S, self._decide, data)
            self._key = (data, timer)
            return True
        before = b"" if self._key is None else self._key[0]
        self._decide_no_more()
        self._rest += self._decoder.decode(before)
        self.say("Nothing is decided: that was more than a key, or came too soon.")
        return False

    def _decide(self, data: bytes) -> None:
        approval, session = self._deciding, self._session
        self._decide_no_more()
        if approval is None or session is None:
            return
        key = data.decode("ascii", "replace").lower()
        says = _PLAN_SAYS if approval.about == "plan" else _SAYS
        if all(each != approval for each in session.open_questions()):
            self.say("That is closed already: nothing is decided.")
        elif key not in says:
            self.say("Nothing is decided. Enter on an empty line asks again.")
        else:
            decision = Decision(
                granted=key != "n", for_run=key == "r", mode="auto" if key == "a" else "ask"
            )
            self._begin(session.approve(approval.id, decision))

    def _decide_no_more(self) -> None:
        self._deciding = None
        if self._key is not None:
            self._key[1].cancel()
            self._key = None
        _set_modes(self._fd, self._modes)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                self.say(f"{error}", kind="error")

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# --- the terminal's modes -------------------------------------------------------------------------


def _modes_of(terminal: int) -> list[Any]:
    if sys.platform == "win32":
        return []
    import termios

    return termios.tcgetattr(terminal)


def _set_modes(terminal: int, modes: list[Any]) -> None:
    """Give a terminal its modes back; one that is gone has none."""
    if sys.platform == "win32":
        return
    import termios

    with contextlib.suppress(termios.error):
        termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _give_keys(terminal: int) -> None:
    """Have a terminal give each key as it comes, unechoed."""
    if sys.platform == "win32":
        return
    import termios

    modes = termios.tcgetattr(terminal)
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
