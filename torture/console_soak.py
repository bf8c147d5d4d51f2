"""A console soaked in random keys, output and resizes, in a real terminal with a screen before it.

Each script (see `soak_script`) is one console from its start to its end. Whatever comes:

* what was typed is in the line, kept to come back, in the history, or delivered; unless a key that
  deletes was pressed while it stood in the line;
* the screen shows at its end exactly what the console has drawn there, with nothing of the runs from the
  prompt on downwards, and the cursor where it thinks it is;
* a call is approved only by a key written alone, at least 0.4 s after the call was asked about;
* nothing goes wrong inside, nothing blocks, and it ends when told to, with the exit code that says why,
  and the terminal as it was: modes, cursor, line breaks, pastes, keyboard, title, colours.

A script that breaks one of these is cut down to what still breaks it, and written to a file.
"""

import contextlib
import signal
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec

from torture.report import Broken, Report
from torture.soak_script import (
    CTRL_C,
    CTRL_D,
    ENTER,
    MARK,
    MARRING,
    TOKEN,
    Action,
    Alone,
    Keys,
    Leave,
    Look,
    Resize,
    Slowly,
    Tell,
    Wait,
    read,
    script,
    written,
)
from torture.soak_terminal import HANGS_S, Died, SoakTerminal

LENGTH: Final = 120
CUTS: Final = 60
"""How often a script that broke something is run again, at most, to cut it down."""

_KIND: Final = 12
"""So many characters of what broke say of which kind it is."""

_FRESH_S: Final = 0.4
_SETTLING_S: Final = 8.0
_SETTLING_ROUNDS: Final = 20
"""So often at least it is looked again: a machine that stands still lets time pass alone."""


class Soaking:
    """One console from its start to its end. `broken` says what did not hold, "" for nothing."""

    def __init__(self, terminal: SoakTerminal) -> None:
        self._terminal = terminal
        self._missing: set[str] = set()
        self._approved = 0
        self.looked_for = 0

    def broken(self, actions: Sequence[Action]) -> str:
        """Do what the script says; return what did not hold, "" if everything did."""
        terminal = self._terminal
        try:
            terminal.asked({"ping": True})
            terminal.rest()
            for action in actions:
                if what := self._done(action):
                    return what
        except Died as error:
            return f"{error}; the screen: {' / '.join(filter(None, terminal.rows()))[-600:]}"
        return ""

    def _done(self, action: Action) -> str:
        terminal = self._terminal
        match action:
            case Keys(text):
                self._typed(text)
                terminal.type(text)
                terminal.read()
            case Slowly(text):
                self._typed(text)
                for key in text:
                    terminal.type(key)
                    terminal.wait(0.004)
            case Alone(text):
                self._typed(text)
                self._alone(text)
            case Resize(columns, rows):
                terminal.resize(columns, rows)
            case Tell(what, count):
                terminal.tell({"what": what, "count": count})
            case Wait(ms):
                terminal.wait(ms / 1000)
            case Look():
                return self._seen()
            case Leave(how):
                return self._left(how)
        return ""

    def _alone(self, key: str) -> None:
        # Until the console has read it, and taken it for a key that nothing follows.
        self._terminal.asked({"ping": True})
        self._terminal.type(key)
        for _ in range(2):
            self._terminal.wait(0.08)
            self._terminal.asked({"ping": True})

    def _typed(self, text: str) -> None:
        """Take note of what may be missed from now on, and of what may have been deleted."""
        self._missing |= set(TOKEN.findall(text))
        self.looked_for += len(TOKEN.findall(text))
        if text in MARRING:
            self._missing.clear()

    # --- looking ---

    def _seen(self) -> str:
        terminal = self._terminal
        until = monotonic() + _SETTLING_S
        for looked in count(1):
            terminal.rest()
            kept = terminal.asked({"dump": True})
            terminal.rest(0.2)
            what = self._unlike(kept) if not terminal.is_in_frame() else "a frame is half drawn"
            if not what or (looked > _SETTLING_ROUNDS and monotonic() > until):
                break
        return what or self._lost(kept) or self._unasked(kept) or self._troubled()

    def _unlike(self, kept: dict[str, Any]) -> str:
        """Return how the screen differs from what the console has drawn, "" if it does not."""
        screen, rows = self._terminal.screen, self._terminal.rows()
        (x, y), drawn = kept["cursor"], [_even(row) for row in kept["rows"]]
        if not drawn:
            return "nothing is drawn"
        if _mode(1000) in screen.mode or _mode(1049) in screen.mode:
            return "the mouse or another screen is on"
        if _mode(2004) not in screen.mode or _mode(7) not in screen.mode:
            return "pastes are not bracketed, or lines are not broken"
        if screen.cursor.hidden:
            return "the cursor is hidden"
        top = screen.cursor.y - y
        if top < 0:
            return f"the cursor is in row {screen.cursor.y}, drawn in row {y}"
        found = [_even(row) for row in rows[top:]]
        while found and not found[-1]:
            found.pop()
        while drawn and not drawn[-1]:
            drawn.pop()
        if found != drawn:
            return f"the screen shows {found}, drawn is {drawn}"
        if abs(screen.cursor.x - x) > 1:
            return f"the cursor is in column {screen.cursor.x}, drawn in {x}"
        if below := [row for row in rows[screen.cursor.y :] if MARK in row]:
            return f"output stands at or below the prompt: {below}"
        return ""

    def _lost(self, kept: dict[str, Any]) -> str:
        delivered = [str(told.get("line", "")) for told in kept["log"] if _is_delivered(told)]
        notes = [f"{told.get('note')} {told.get('command')}" for told in kept["log"]]
        everywhere = "\n".join(
            [kept["editor"], *kept["held"], *kept["history"], *delivered, *notes]
        )
        found = set(TOKEN.findall(everywhere))
        lost = sorted(self._missing - found)
        self._missing -= set(TOKEN.findall("\n".join([*kept["history"], *delivered, *notes])))
        if lost:
            return f"typed and nowhere any more: {', '.join(lost)}; the line is {kept['editor']!r}"
        return ""

    def _unasked(self, kept: dict[str, Any]) -> str:
        asked = {told["question"]: told["at"] for told in kept["log"] if told["what"] == "asked"}
        decided = [told for told in kept["log"] if told["what"] == "approve"]
        new, self._approved = decided[self._approved :], len(decided)
        for told in new:
            if not told["granted"]:
                continue
            keys = (ENTER,) if told["command"] is not None else ("y", "r")
            deliberate = [
                key
                for key in self._terminal.written
                if key.text in keys
                and key.began <= told["at"]
                and key.taken - asked[told["question"]] > _FRESH_S
            ]
            if not deliberate:
                lately = [key.text for key in self._terminal.written][-12:]
                return f"approved without a key for it: {told}; keys: {lately}"
        return ""

    def _troubled(self) -> str:
        for text in (self._terminal.above(), "\n".join(self._terminal.rows())):
            for words in ("Something went wrong inside", "Traceback (most"):
                if words in text:
                    return text[text.index(words) :][:300]
        return ""

    # --- leaving ---

    def _left(self, how: str) -> str:
        terminal, code = self._terminal, 0
        match how:
            case "SIGTERM" | "SIGHUP":
                number = signal.Signals[how]
                code = 128 + number
                terminal.signal(number)
            case "hang_up":
                terminal.hang_up()
                code = 128 + signal.SIGHUP
            case _:
                self._leave_by_keys(how)
        ended = terminal.ended(HANGS_S)
        if ended is None:
            return f"it does not end by {how}; the screen: {terminal.rows()}"
        if ended != code:
            return f"by {how} it ended with {ended} instead of {code}: {terminal.rows()[-12:]}"
        return "" if how == "hang_up" else self._troubled() or self._unrestored()

    def _leave_by_keys(self, how: str) -> None:
        terminal = self._terminal
        keys = {"ctrl_c": [], "ctrl_d": [CTRL_D], "exit": ["/exit", ENTER]}[how]
        with contextlib.suppress(Died):
            for _ in range(12):
                self._alone(CTRL_C)
                for key in keys:
                    self._alone(key)
                # One that is leaving is left alone: near its end a Ctrl-C would be a signal to Python.
                if terminal.asked({"ping": True})["left"] or terminal.ended(0.3) is not None:
                    return

    def _unrestored(self) -> str:
        terminal, screen = self._terminal, self._terminal.screen
        raw = bytes(terminal.raw)
        differing = [
            name
            for name, differs in {
                "the modes of the terminal": terminal.modes() != terminal.modes_before,
                "bracketed paste": _mode(2004) in screen.mode,
                "synchronized output": _mode(2026) in screen.mode,
                "the line breaks": _mode(7) not in screen.mode,
                "the cursor": screen.cursor.hidden or screen.cursor.x != 0,
                "the cursor's keys": _mode(1) in screen.mode,
                "another screen": raw.count(b"\x1b[?1049h") != raw.count(b"\x1b[?1049l"),
                "the mouse": b"\x1b[?1000h" in raw and not raw.count(b"\x1b[?1000l"),
                "the margins": screen.margins is not None,
                "the colours": screen.cursor.attrs.fg != "default" or screen.cursor.attrs.reverse,
                "bold": screen.cursor.attrs.bold or screen.cursor.attrs.underscore,
                "the title": raw.count(b"\x1b[22;") != raw.count(b"\x1b[23;"),
                "the keyboard": _last(raw, b"\x1b[>4;") not in (b"0m", b"m", b""),
                "what is below": any(terminal.rows()[screen.cursor.y :]),
            }.items()
            if differs
        ]
        return f"not as it was: {', '.join(differing)}" if differing else ""


def _mode(number: int) -> int:
    """Return what `pyte` keeps for a private mode of a terminal."""
    return number << 5


def _last(raw: bytes, start: bytes) -> bytes:
    """Return the two bytes behind the last sequence that begins so, one if it ends with the first."""
    position = raw.rfind(start)
    if position < 0:
        return b""
    rest = raw[position + len(start) :][:2]
    return rest[: rest.index(b"m") + 1] if b"m" in rest else rest


def _even(row: str) -> str:
    """Return a row for comparing, without what takes no room of its own and without trailing blanks."""
    apart = unicodedata.normalize("NFD", row)
    return "".join(c for c in apart if unicodedata.category(c) not in ("Cf", "Mn", "Me")).rstrip()


def _is_delivered(told: dict[str, Any]) -> bool:
    return told["what"] == "own" or told.get("result") in ("taken", "exit")


# --- scripts ------------------------------------------------------------------------------------


def soaked(actions: Sequence[Action]) -> tuple[str, int]:
    """Return what a script breaks, "" for nothing, and for how many typed words was looked."""
    first = next((a for a in actions if isinstance(a, Resize)), Resize(80, 24))
    with (
        tempfile.TemporaryDirectory(prefix="midstream-soak-") as folder,
        SoakTerminal(Path(folder), first.columns, first.rows) as terminal,
    ):
        soaking = Soaking(terminal)
        return soaking.broken(actions), soaking.looked_for


def cut_down(
    actions: Sequence[Action], breaks: Callable[[Sequence[Action]], bool], tries: int = CUTS
) -> list[Action]:
    """Return what is left of a script without what it does not need to break something."""
    kept = [*actions]
    size = max(1, len(kept) // 2)
    while tries > 0:
        position = 0
        while position < len(kept) and tries > 0:
            shorter = kept[:position] + kept[position + size :]
            tries -= 1
            if shorter and breaks(shorter):
                kept = shorter
            else:
                position += size
        if size == 1:
            break
        size = max(1, size // 2)
    return kept


def _breaks(actions: Sequence[Action], *, kind: str) -> bool:
    return soaked(actions)[0][:_KIND] == kind


def soak(consoles: int, seed: int, *, file: str = "", cuts: int = CUTS) -> Report:
    """Return which of so many consoles broke a promise; `file` is a script to be done instead."""
    broken: list[Broken] = []
    words = 0
    for number in range(1 if file else consoles):
        actions = read(Path(file)) if file else script(seed * 100_000 + number, LENGTH)
        what, looked_for = soaked(actions)
        words += looked_for
        if not what:
            continue
        again = f"python -m torture console --script {file}"
        if not file:
            least = cut_down(actions, partial(_breaks, kind=what[:_KIND]), cuts)
            path = Path(tempfile.gettempdir()) / f"midstream-soak-{seed}-{number}.jsonl"
            written(least, path)
            shown = " ".join(msgspec.json.encode(action).decode() for action in least[:20])
            again = f"python -m torture console --script {path}\n    {len(least)} actions: {shown}"
        broken.append(Broken(point=f"console {number}", what=what, again=again))
    note = f"{words} typed words looked for"
    return Report(name="console", tried=1 if file else consoles, broken=tuple(broken), note=note)
