"""What a terminal says among the keys: answers to what some program asked it, and news of its own.

Such an answer (its colours, its name, that it has the focus) may come late, for a program that has
ended or was the person's own editor, or a multiplexer hands it on. Read as keys it is Esc, which stops
a turn, some text, and Ctrl-G for the BEL at its end. So a control string (OSC, DCS, APC) and a control
sequence that no key sends mean nothing here.

A person can press Alt with `]` or `[`: that is the two characters with nothing behind them in the same
piece of input, and stays a key. What is typed is never taken for the rest of an answer, but allows
nothing where it may be (`terminal_questions.Sequences`).
"""

import os
import re
import sys
import time
from array import array
from collections.abc import Callable
from typing import Final

from prompt_toolkit.input import Input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from midstream.tui.terminal_questions import Sequences

_MAX_CHARS: Final = 65_536
"""What is longer and has no end is no answer."""

_PASTE_END: Final = "\x1b[201~"

_WORDS: Final = r"[^\x00-\x1f\x7f]*"
_BEGINNING: Final = rf"\x1b(?:\][\dlL]|P[\d>$+!|]|_[A-Za-z\d]){_WORDS}"
_STRING: Final = re.compile(rf"{_BEGINNING}(?:\x07|\x1b\\|(?=\x1b[^\\]))")
_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CUT: Final = re.compile(rf"(?:{_BEGINNING}\x1b?|\x1b\[[0-?]*[ -/]*|\x1b[\]P_]?)\Z")
_REST: Final = re.compile(rf"{_WORDS[:-1]}+(?:\x07|\x1b\\)")
_KNOWN_BY_FORM: Final = re.compile(r"\x1b\[(?:\d+;\d+R|<?[\d;]+[Mm]|M)\Z")
"""Positions and pointers, which prompt_toolkit knows."""


class KeyParser(Vt100Parser):
    """Prompt_toolkit's parser of keys, which hears nothing of what is none.

    `is_alone`: the last piece of input was one key; `is_quiet`: no sequence is near it.
    """

    def __init__(
        self,
        feed_key_callback: Callable[[KeyPress], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make one that gives each key to the callback. `clock` tells the time in seconds."""
        super().__init__(feed_key_callback)
        self._clock = clock
        self._sequences = Sequences()
        self.is_alone = self.is_quiet = False
        self._ahead = self._lines_ahead = 0
        self._may_send: Callable[[], bool] = lambda: False

    def expect(self, ahead: int, may_send: Callable[[], bool]) -> None:
        """Know how many bytes come first that were typed before there were keys: Enter is a new line there.

        It sends the line before it all the same, where `may_send` says so then. Alone it does nothing.
        Several lines are a paste, which no terminal could mark yet: one text, that is not sent.
        """
        self._ahead, self._lines_ahead, self._may_send = ahead, 0, may_send

    def reset(self, request: bool = False) -> None:
        """Begin anew."""
        super().reset(request)
        self._cut = ""
        self._is_late = False

    def feed(self, data: str) -> None:
        """Take a piece of input. The beginning of a sequence at its end waits for the next, or `flush`."""
        if is_ahead := self._ahead > 0:
            self._ahead -= len(data.encode("utf-8", "replace"))
            self._lines_ahead += sum(bool(line.strip()) for line in data.split("\n")[:-1])
            if self._lines_ahead <= 1 and self._may_send():
                data = _as_sent(data)
            elif self._ahead <= 0:
                data = data.rstrip("\n")
        self.is_quiet = self._sequences.heard(data, self._clock())
        if self._in_bracketed_paste:
            self.is_alone = False
            super().feed(data)
            return
        data, self._cut = self._cut + data, ""
        is_one = len(data) == 1 or data == "\x1b\r"  # Alt-Enter, which may be the key that sends
        self.is_alone = not is_ahead and (is_one or _SEQUENCE.fullmatch(data) is not None)
        if self._is_late and (rest := _REST.match(data)) is not None:
            data = data[rest.end() :]
        self._is_late = False
        while data:
            plain, escape, behind = data.partition("\x1b")
            super().feed(plain)
            data = escape + behind
            if _CUT.match(data) is not None and len(data) <= _MAX_CHARS:
                self._cut = data
                return
            sequence = _STRING.match(data) or _SEQUENCE.match(data)
            if sequence is None:
                super().feed(data[:1])
                data = data[1:]
                continue
            data = data[sequence.end() :]
            if sequence[0] == _PASTE_END:
                # Of a paste that held one itself. What stands before it did not come alone.
                self.feed_key_callback(KeyPress(Keys.Ignore, sequence[0]))
            elif _is_key(sequence[0]):
                super().feed(sequence[0])
                if self._in_bracketed_paste:
                    super().feed(data)
                    return

    def flush(self) -> None:
        """Take what waits as it is, since nothing more came: as keys, or as half an answer."""
        cut, self._cut = self._cut, ""
        # Alone these are keys; Alt-[ with something behind it is none.
        if len(cut) <= 2:
            super().feed(cut)
        else:
            self._is_late = True
        super().flush()


def _as_sent(ahead: str) -> str:
    """Return what was typed ahead with Enter behind each line that says something."""
    *lines, rest = ahead.split("\n")
    return "".join(f"{line}\r" for line in lines if line.strip()) + rest


def _is_key(sequence: str) -> bool:
    """Return whether a sequence is one of a key, or the beginning of one."""
    if not sequence.startswith("\x1b["):
        return False
    if sequence in ANSI_SEQUENCES or _KNOWN_BY_FORM.match(sequence) is not None:
        return True
    return any(known.startswith(sequence) for known in ANSI_SEQUENCES)


def is_alone(event: KeyPressEvent) -> bool:
    """Return whether a key came alone: not in one piece of input with others, as those of a paste do."""
    parser = _parser(event)
    is_one = parser is None or parser.is_alone
    return is_one and not event.key_processor.input_queue


def may_allow(event: KeyPressEvent) -> bool:
    """Return whether a key came alone, and not where it may be a part of what the terminal says."""
    parser = _parser(event)
    return is_alone(event) and (parser is None or parser.is_quiet)


def _parser(event: KeyPressEvent) -> KeyParser | None:
    """Return what reads the keys, None where it is not ours: of its keys nothing is known."""
    parser = getattr(event.app.input, "vt100_parser", None)
    return parser if isinstance(parser, KeyParser) else None


def hear_what_was_typed_ahead(input: Input, may_send: Callable[[], bool]) -> None:
    """Have an input that gives keys now take what was typed before it did; see `KeyParser.expect`."""
    if sys.platform == "win32":
        return
    import fcntl
    import termios

    parser = getattr(input, "vt100_parser", None)
    if isinstance(parser, KeyParser) and os.isatty(input.fileno()):
        waiting = array("i", [0])
        fcntl.ioctl(input.fileno(), termios.FIONREAD, waiting)
        parser.expect(waiting[0], may_send)


def without_replies(input: Input) -> Input:
    """Return the input, which now gives keys only."""
    if sys.platform != "win32":
        from prompt_toolkit.input.vt100 import Vt100Input

        if isinstance(input, Vt100Input):
            input.vt100_parser = KeyParser(input.vt100_parser.feed_key_callback)
    return input
