"""What reaches a person beside the screen: the window's title, a call, the clipboard.

All are control sequences for the terminal's one write point. The text in them is foreign (a workflow's
name, a question): it is sanitized like everything drawn, so that it can end no sequence and begin none.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from midstream.app.ui import Status
from midstream.config.settings import Notifications
from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.safety.sanitize import controlled, on_one_line, sanitized
from midstream.views.calls_in_words import asker, beginning
from midstream.views.cells import clipped

AWAY_S: Final = 10.0
"""Without a key for so long a person is taken to look elsewhere."""

_BETWEEN_S: Final = 5.0
_TITLE_CELLS: Final = 70
_WORDS_CELLS: Final = 160
_SILENT: Final = ("dumb", "linux", "eterm", "unknown", "vt")
"""Terminals that have no title, or would show the sequence as text."""

_PUSH: Final = "\x1b[22;2t"
_POP: Final = "\x1b[23;2t"
BELL: Final = "\x07"


class Title:
    """Which title the terminal has. Its methods return what is to be written, "" for nothing."""

    def __init__(self, term: str | None) -> None:
        """Make one for a terminal of that TERM."""
        self._is_on = bool(term) and not str(term).startswith(_SILENT)
        self._shown = ""

    def show(self, text: str) -> str:
        """Return what makes this the title. The one there was before is kept by the terminal."""
        clean = clipped(_clean(text), _TITLE_CELLS)
        if not self._is_on or clean == self._shown:
            return ""
        keeping = "" if self._shown else _PUSH
        self._shown = clean
        return f"{keeping}\x1b]2;{clean}{BELL}"

    def restore(self) -> str:
        """Return what brings the title from before back; none where the terminal kept none."""
        if not self._shown:
            return ""
        self._shown = ""
        return f"\x1b]2;{BELL}{_POP}"


def title_of(status: Status, questions: Sequence[Question], *, folder: str) -> str:
    """Return the title: what most needs a person first, since few of its letters may be seen."""
    if questions:
        sign = f"? #{questions[0].number} " if questions[0].number else "? "
    else:
        sign = "● " if status.busy else ""
    name = status.mode.partition(":")[2] or status.mode
    where = f" [{status.state}]" if status.state else ""
    return f"{sign}{name}{where} · {folder} · midstream"


class Calls:
    """What calls a person who looks elsewhere: a question that waits, a run or an answer that is done."""

    def __init__(
        self,
        how: Notifications,
        environ: Mapping[str, str] | None = None,
        *,
        away_s: float = AWAY_S,
    ) -> None:
        """Make one. `environ` says whether a multiplexer stands between us and the terminal."""
        self._away_s = away_s
        self._how = how
        env = os.environ if environ is None else environ
        self._is_in_tmux = bool(env.get("TMUX"))
        self._is_in_screen = env.get("TERM", "").startswith("screen")
        self._chats: set[str] = set()
        self._last = float("-inf")

    def recall(self, run: Run) -> None:
        """Know of a run that began where nobody listened."""
        if run.is_chat:
            self._chats.add(run.id)

    def on_event(self, envelope: Envelope, *, now: float, idle_s: float) -> str:
        """Return what is to be written for an event, "" mostly. Times are of one clock that only grows."""
        event = envelope.event
        if isinstance(event, e.RunStarted) and event.definition.kind == "chat":
            self._chats.add(envelope.run)
        words = self._words(envelope)
        if (
            self._how == "off"
            or not words
            or idle_s < self._away_s
            or now - self._last < _BETWEEN_S
        ):
            return ""
        self._last = now
        return self._call(words)

    def _words(self, envelope: Envelope) -> str:
        match envelope.event:
            case e.QuestionAsked() as asked if asked.kind != "input":
                who = asker(asked)
                wants = "wants to run" if asked.kind == "approval" else "asks:"
                wants = "proposes a plan:" if asked.about == "plan" else wants
                return f"{who} {wants} {beginning(asked.text)}"
            case e.RunFinished() if envelope.run not in self._chats:
                return "finished"
            case e.RunFailed() as failed:
                return f"failed: {beginning(failed.error)}"
            case e.AgentResponded(is_final=True, branch="") as said if envelope.run in self._chats:
                return f"{said.agent} has answered"
            case _:
                return ""

    def _call(self, words: str) -> str:
        if self._how == "bell":
            return BELL
        # It begins with a word of ours: some terminals take a number for a command.
        text = clipped(_clean(f"midstream: {words}"), _WORDS_CELLS)
        call = f"\x1b]9;{text}{BELL}"
        # A multiplexer passes it on only where it is told to; its own mark is the bell's.
        if self._is_in_tmux:
            return f"\x1bPtmux;{call.replace(chr(27), chr(27) * 2)}\x1b\\{BELL}"
        return f"\x1bP{call}\x1b\\{BELL}" if self._is_in_screen else call


def folder_name(folder: Path | None = None) -> str:
    """Return what a folder is called, by default the one we are in."""
    try:
        place = Path.cwd() if folder is None else folder
    except OSError:
        return ""
    return place.name or str(place)


def _clean(text: str) -> str:
    return controlled(on_one_line(text))


# --- the clipboard --------------------------------------------------------------------------------

_KNOWN_BY: Final = (
    *("KITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "ALACRITTY_WINDOW_ID"),
    "WT_SESSION",
)
"""Set by terminals that take the sequence OSC 52. Others drop it without a word, and tmux and screen
keep it to themselves unless they are told otherwise: what was copied would be said to be where it is
not.
"""
_MOST: Final = 74_000
"""Bytes that all of them take; some drop more than that."""


def copying(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that puts a text into the clipboard, "" where it may not get there.

    What is pasted is read by a shell, too: controls in it are made visible.
    """
    is_known = any(environ.get(name) for name in _KNOWN_BY) or "foot" in environ.get("TERM", "")
    if not is_known or environ.get("TMUX") or environ.get("STY"):
        return ""
    data = base64.b64encode(sanitized(text).encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{data}\x07" if len(data) <= _MOST else ""
