"""Commands a person runs beside the conversation, with `!`: theirs, so nobody is asked.

They run as in the person's own shell: in the workspace, outside the sandbox, with the environment
midstream was started in. Agents learn of them only what the person sends along.
"""

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from midstream.app.ui import OwnCommandEnded
from midstream.language.errors import WorldTrouble
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import call_soon
from midstream.system.own_process import own_redactor
from midstream.system.supervisor import Ended, run_command
from midstream.tools.shell import Output
from midstream.tools.tool_text import cleaned

MAX_SHOWN_LINES: Final = 2_000
"""More are kept for the offer, as far as that goes, and counted."""

MAX_SHOWN_CHARS: Final = 400_000
LAST_LINES: Final = 20
"""Where more came than is shown: what came of it stands at the end."""

_MAX_LINE: Final = 4_000
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]{0,60}[mK]")
_WEEK_S: Final = 7 * 86_400.0
_TOLD_EVERY_S: Final = 0.05
_NO_PAGER: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "TERM": "dumb"}

Hears = Callable[[tuple[str, ...], str], None]
"""Hears whole lines, and the beginning of the one that has not ended yet, on the loop."""


async def run_own_command(
    command: str, workspace: Path, *, stop: asyncio.Event, hears: Hears
) -> OwnCommandEnded:
    """Return how a command ended, once all it started has ended too.

    Setting `stop` ends it softly, in two seconds at most; cancelling kills it.

    Raises:
        WorldTrouble: there is no shell to run it.
    """
    shell = os.environ.get("SHELL", "")
    if not (os.path.isabs(shell) and os.access(shell, os.X_OK)):
        shell = "/bin/sh"
    output = _Told(asyncio.get_running_loop(), hears)
    try:
        ended = await run_command(
            [shell, "-c", command],
            folder=workspace,
            environment={**os.environ, **_NO_PAGER},
            timeout_s=_WEEK_S,
            stop=stop,
            sink=output,
        )
    except (OSError, ValueError) as error:
        raise WorldTrouble(
            f"The command could not be started: {error}.", hint="midstream doctor looks for bash."
        ) from error
    words = _how(ended)
    text = own_redactor().redacted(
        f"I ran a command in my own shell:\n\n$ {command}\n{cleaned(output.rest())}\n[{words}]"
    )
    # What was told last is on the loop by now, and heard before the caller hears how it ended.
    await asyncio.sleep(0)
    return OwnCommandEnded(words=words, lines=output.lines, text=sanitized(text))


def _how(ended: Ended) -> str:
    import signal

    code = ended.exit_code
    how = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    if ended.cause == "stopped":
        how = f"stopped, {how}"
    if ended.left_behind:
        them = "1 process" if ended.left_behind == 1 else f"{ended.left_behind} processes"
        how += f"; {them} it had left behind {'was' if ended.left_behind == 1 else 'were'} ended"
    if ended.survivors:
        how += f"; still running: {', '.join(map(str, ended.survivors))}"
    return how


class _Told:
    """A command's output: told on line by line, a few times a second, and kept to be offered.

    Once enough of it is shown, the rest is only counted, and its last lines are told when it has ended: a
    flood keeps its thread busy, and a busy thread keeps the loop waiting.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, hears: Hears) -> None:
        self.lines = 0
        self._loop = loop
        self._hears = hears
        self._kept = Output()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._clean = own_redactor().sliding()
        self._open = ""
        self._has_open = False
        self._cut = 0
        self._left = MAX_SHOWN_CHARS
        self._is_full = False
        self._shown = 0
        self._untold: list[str] = []
        self._told_at = 0.0
        self._is_news = False

    def feed(self, data: bytes) -> bool:
        """Take the next piece. More is always wanted: a full pipe would block the command."""
        self._kept.feed(data)
        if self._is_full:
            self.lines += data.count(b"\n")
            self._has_open = not data.endswith(b"\n")
        else:
            self._take(self._clean.fed(self._decoder.decode(data)))
        return True

    def tick(self) -> float | None:
        """Tell on what has come in, unless something was told a moment ago."""
        if not self._is_news:
            return None
        wait = self._told_at + _TOLD_EVERY_S - time.monotonic()
        if wait > 0:
            return wait
        self._hand_on()
        return None

    def rest(self) -> str:
        """Return the output as it is offered; called when the command has ended."""
        if not self._is_full:
            last = self._decoder.decode(b"", final=True)
            self._take(self._clean.fed(last) + self._clean.rest())
        if self._open or self._has_open:
            self._end_line()
        seen = "\n".join(map(as_seen, self._kept.text().removesuffix("\n").split("\n")))
        text = own_redactor().redacted(seen)
        if self._is_full:
            ends = text.split("\n")[-min(LAST_LINES, self.lines - self._shown) :]
            self._untold += [line[:_MAX_LINE] for line in ends]
        self._hand_on()
        return text.rstrip("\n")

    def _take(self, piece: str) -> None:
        *whole, rest = piece.split("\n")
        for number, line in enumerate(whole):
            self._add(line)
            self._end_line()
            if self._is_full:
                # What the redactor holds back is counted with the others, and shown no more.
                last = rest + self._clean.rest()
                self.lines += len(whole) - number - 1 + last.count("\n")
                self._has_open = not last.endswith("\n") and bool(last)
                break
        else:
            self._add(rest)
        self._is_news = self._is_news or bool(piece)

    def _add(self, piece: str) -> None:
        """Add to the line that has not ended: what is written over goes, and so does what is too long."""
        line = self._open + piece
        bare = line.rstrip("\r")
        if "\r" in bare:
            line, self._cut = line[bare.rfind("\r") + 1 :], 0
        self._cut += max(len(line) - _MAX_LINE, 0)
        self._open = line[:_MAX_LINE]

    def _end_line(self) -> None:
        self.lines += 1
        shown, self._open, self._has_open = self._seen(), "", False
        self._cut, self._left = 0, self._left - len(shown) - 1
        if self._is_full:
            return
        if self.lines > MAX_SHOWN_LINES or self._left < 0:
            self._is_full = True
            how_many = f"more than {MAX_SHOWN_LINES:,} lines"
            what = how_many if self.lines > MAX_SHOWN_LINES else "there is more"
            shown = f"[{what}: of the rest only the end is shown]"
        else:
            self._shown = self.lines
        self._untold.append(shown)

    def _seen(self) -> str:
        # Again: characters that were taken back may have parted a key.
        line = own_redactor().redacted(as_seen(self._open))
        return f"{line} [+{self._cut:,} more characters]" if self._cut else line

    def _hand_on(self) -> None:
        self._told_at = time.monotonic()
        self._is_news = False
        lines, self._untold = tuple(self._untold), []
        call_soon(self._loop, self._hears, lines, self._seen())


def as_seen(line: str) -> str:
    """Return a line as a terminal ends up showing it, where it was written over, without its colours.

    Sequences that move the cursor elsewhere stay, for the UI to show as signs.
    """
    line = line.rstrip("\r").rpartition("\r")[2]
    line = _COLOURS.sub("", line)
    if "\b" not in line:
        return line
    seen: list[str] = []
    for character in line:
        if character == "\b" and seen and seen[-1] != "\b":
            seen.pop()
        else:
            seen.append(character)
    return "".join(seen)
