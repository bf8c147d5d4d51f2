"""From Enter to the last token, end to end: a real console in a pty, a real server, real streams.

The server streams signs that nothing else prints, each another one: the first time a sign is written
to the terminal is the moment its token appeared. Enter is written while a reply streams; what counts
is when the last sign of that reply appeared after it, nothing if none did. The floor is a program that
writes the stream to the terminal and, at Enter, cancels it and asks for the next one.
"""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from support.model_server import Reply

from benchmarks.measuring import Figure, percentile
from benchmarks.processes import model_server
from benchmarks.terminal import HANGS_S, PROGRAMS, Terminal, fresh_home, midstream

RATES = (50, 200)
SIGNS = 0x4E00
TOKENS = 150
"""Signs of one reply: more than are streamed before it is halted."""

REPLIES = 100
"""Replies before the signs begin again."""

HALTS_A_CHAT = 5
"""Six interruptions within ten seconds are a storm, which is slowed down; so a new chat before that."""


def sign_of(reply: int, token: int) -> str:
    """Return the sign of a token."""
    return chr(SIGNS + reply % REPLIES * TOKENS + token)


@contextmanager
def serving(rate: int, tokens: int = TOKENS) -> Iterator[dict[str, str]]:
    """Serve streams of so many tokens a second; give the environment that points to them."""
    script = [
        Reply(
            chunks=tuple(f"{sign_of(number, token)} " for token in range(tokens)), delay_s=1 / rate
        )
        for number in range(REPLIES * 4)
    ]
    with model_server(script) as url:
        yield {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "bench",
            "MIDSTREAM_MODEL": "openai:bench",
        }


class Chat:
    """A program that streams replies into a terminal, halted by Enter again and again."""

    def __init__(self, terminal: Terminal, *, has_prompt: bool) -> None:
        self._terminal = terminal
        self._has_prompt = has_prompt
        self._reply = -1
        self._halts = 0
        self.last_token: list[float] = []
        self.next_reply: list[float] = []

    def halt(self, count: int) -> None:
        """Halt so many replies."""
        for _ in range(count):
            if self._halts % HALTS_A_CHAT == 0:
                self._begin()
            self._halts += 1
            self._halt()

    def _begin(self) -> None:
        """Have a reply stream in a new chat."""
        if self._has_prompt:
            self._type("/clear")
            self._terminal.type("\r")
            self._listen(0.3)
        self._type("go")
        self._terminal.type("\r")
        self._reply += 1
        self._until(sign_of(self._reply, 3))

    def _halt(self) -> None:
        self._type("no")
        self._listen(random.uniform(0.1, 0.2))
        entered = self._terminal.type("\r")
        old = {sign_of(self._reply, token) for token in range(TOKENS)} - self._shown
        self._reply += 1
        first = sign_of(self._reply, 0)
        last = began = entered
        # A reply that has begun ends the halt; a quarter of a second more sees what is late.
        until = entered + HANGS_S
        while (left := until - perf_counter()) > 0:
            new, when = self._read(left)
            if new & old:
                last = when
            if first in new and began == entered:
                began = when
                until = when + 0.25
        if began == entered:
            raise TimeoutError(f"no next reply; the program wrote: {self._terminal.words()}")
        self.last_token.append((last - entered) * 1e3)
        self.next_reply.append((began - entered) * 1e3)

    _shown: frozenset[str] = frozenset()
    _cut = b""

    def _read(self, seconds: float) -> tuple[frozenset[str], float]:
        """Return the signs that came, those of the last two replies once each, and when."""
        data, when = self._terminal.read(seconds)
        data = self._cut + data
        # A read may end within a sign, whose bytes then begin the next one.
        text = data.decode(errors="ignore")
        self._cut = data[-2:] if data and data[-1] > 0x7F else b""
        signs = frozenset(sign for sign in text if ord(sign) >= SIGNS)
        new = signs - self._shown
        self._shown |= new
        return new, when

    def _until(self, sign: str) -> None:
        until = perf_counter() + HANGS_S
        self._shown = frozenset()
        while sign not in self._shown:
            if perf_counter() > until:
                raise TimeoutError(f"no reply; the program wrote: {self._terminal.words()}")
            self._read(1)

    def _listen(self, seconds: float) -> None:
        until = perf_counter() + seconds
        while (left := until - perf_counter()) > 0:
            self._read(left)

    def _type(self, words: str) -> None:
        self._terminal.type(words)
        self._listen(0.03)


def halted(argv: Sequence[str | Path], home: Path, env: Mapping[str, str], count: int) -> Chat:
    """Return what halting so many replies of a program came to."""
    is_ours = argv == midstream()
    with Terminal(argv, home, env) as terminal:
        terminal.until_text("›")
        # The first words may come before everything is loaded; that is measured elsewhere.
        terminal.rest(1.0)
        chat = Chat(terminal, has_prompt=is_ours)
        chat.halt(count)
    return chat


FLOOR = "a program that writes the stream to the terminal; Enter cancels it and asks anew"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from Enter."""
    count, rounds = (2, 1) if is_quick else (30, 3)
    rates = RATES[:1] if is_quick else RATES
    figures = []
    for rate in rates:
        found: dict[str, list[Chat]] = {"ours": [], "floor": []}
        for _ in range(rounds):
            for side in found:
                found[side].append(_one(side, rate, count))
        figures += _figures(rate, found["ours"], found["floor"])
    return figures


def _one(side: str, rate: int, count: int) -> Chat:
    argv: Sequence[str | Path] = (
        midstream() if side == "ours" else [sys.executable, PROGRAMS / "bare_stream.py"]
    )
    with fresh_home() as folder, serving(rate) as env:
        return halted(argv, Path(folder), env, count)


def _figures(rate: int, own: list[Chat], bare: list[Chat]) -> list[Figure]:
    def of(chats: list[Chat], what: str, percent: float) -> tuple[float, ...]:
        return tuple(percentile(getattr(chat, what), percent) for chat in chats)

    rows: list[tuple[str, str, float, float | None]] = [
        ("last token", "last_token", 50, None),
        ("last token", "last_token", 99, 20),
        ("the next reply's first token", "next_reply", 50, None),
    ]
    return [
        Figure(
            name=f"Enter to {words}, in a terminal, {rate} tokens/s, p{percent:g}",
            unit="ms",
            values=of(own, what, percent),
            floor=FLOOR,
            floors=of(bare, what, percent),
            aim=aim,
            aim_on="value",
            is_compared=what != "last_token",
        )
        for words, what, percent, aim in rows
    ]
