"""What is done with each console, always in the same steps, and what came of it.

Nothing is written down beforehand: a cell of the tables is what a console drew, asked or left running.
Every step has a home and a server of its own, so that none sees what another left behind.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

import msgspec
from support.model_server import Call, Gate, Reply

from benchmarks.consoles.screen import Screen
from benchmarks.consoles.start import Home, Installed, made_home
from benchmarks.consoles.wire import CUT_CALL, Asking, Model, Request
from benchmarks.processes import cpu_s, kill, memory_mb, running, same_program

PROBE: Final = "zqz"
"""What is typed to see whether the prompt takes keys."""

FIRST, LINE, DRAFT, NEXT = (
    "describe pebbles",
    "make pebbles blue",
    "half a draft",
    "go on with pebbles",
)
BEFORE_CUT: Final = "The first stone is grey. The second stone is gre"
HELD: Final = "gre"
PIECES, EVERY_S = 120, 0.05
RESTED_S: Final = 3.0
TYPED_S: Final = 0.4
"""Between words and Enter: what comes faster is taken for a paste by some."""

LISTENED_S: Final = 40.0
ANSWERED_S: Final = 25.0
MARKED: Final = re.compile(
    r"interrupt|abort|cancel|stopp|cut off|cut short|incomplete|not run|killed|unknown", re.I
)


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """One start: seconds to a prompt that takes keys, CPU and memory once it rests, Enter to the wire.

    `floor_s`: what a bare prompt took in the same round.
    """

    usable_s: float
    cpu_s: float
    pss_mb: float
    rss_mb: float
    wire_s: float | None
    floor_s: float = 0.0


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first request: sizes in characters, and the names of the tools."""

    system: int = 0
    tools: tuple[str, ...] = ()
    tools_size: int = 0
    size: int = 0
    text: str = ""


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """A line sent while text streams. `joined`: it came with a tool's result, in the middle of the turn."""

    has_prompt: bool
    stopped_ms: float | None = None
    sent_after_s: float | None = None
    joined: bool | None = None


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A reply stopped in the middle of a word, and what the next request holds of it.

    `mark`: what says there that it was stopped. `tail`: all that was said after the user's first words.
    """

    stopped_ms: float | None
    on_screen: bool
    words: bool
    partial: str
    mark: str
    tail: tuple[tuple[str, str], ...]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call stopped: what the next request says of it and has of it, and whether it goes on."""

    said: str
    call: str
    tail: tuple[tuple[str, str], ...]
    left: bool = False


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A console killed, and started again with its own way to resume.

    Of the words, the partial text, the draft and the call: what is `seen` on its screen, and what is in the
    next request. `alone`: it asked the model without being told to. `strays` are processes that are left,
    `left`: the command is among them.
    """

    seen: tuple[str, ...]
    asked: tuple[str, ...]
    mark: str = ""
    alone: bool = False
    strays: int | None = None
    left: bool = False
    screen: str = ""
    tail: tuple[tuple[str, str], ...] = ()


@contextmanager
def opened(found: Installed) -> Iterator[tuple[Home, Model, Screen]]:
    """Give a console whose prompt stands there, in a home of its own."""
    with (
        made_home() as home,
        Model(has_tools=found.console.tools) as model,
        home.start(found, model.base_url) as screen,
    ):
        usable(screen, found)
        screen.rest(seconds=2.0)
        yield home, model, screen


def usable(screen: Screen, found: Installed) -> float:
    """Return when a key came back on the screen, and take it out again."""
    prompt = re.compile(found.console.prompt, re.M)
    screen.until(lambda: screen.is_raw and prompt.search(screen.shown) is not None, step_s=0.01)
    for _ in range(60):
        screen.type(PROBE)
        try:
            when = screen.until(lambda: PROBE in screen.shown, 1.0, step_s=0.01)
        except TimeoutError:
            continue
        screen.type("\x7f" * len(PROBE))
        screen.until(lambda: PROBE not in screen.shown)
        return when
    raise TimeoutError(f"no key came back; the screen: {screen.shown[-1500:]}")


def typed(screen: Screen, words: str) -> None:
    """Type words, and wait until they stand there."""
    screen.type(words)
    screen.until(lambda: screen.has(words), 10.0)
    screen.wait(TYPED_S)


def sent(
    screen: Screen, model: Model, words: str, seconds: float = LISTENED_S
) -> tuple[Asking, float]:
    """Send a line; return the next request, and the seconds from Enter until it came."""
    typed(screen, words)
    before = len(model.askings)
    enter = screen.type("\r")
    screen.until(lambda: len(model.askings) > before, seconds, step_s=0.002)
    return model.askings[before], model.askings[before].when - enter


# --- a start, and the first request -----------------------------------------------------------------


def begun(found: Installed, home: Home) -> tuple[Begun, First]:
    """Return what one start came to."""
    with Model(has_tools=found.console.tools) as model, home.start(found, model.base_url) as screen:
        ready = usable(screen, found) - screen.began
        screen.wait(RESTED_S)
        pids = screen.pids()
        cpu, (pss, rss) = cpu_s(pids), memory_mb(pids)
        wire, first = None, First()
        if not found.console.is_floor:
            asking, wire = sent(screen, model, FIRST)
            first = _first(asking.request)
            screen.wait(1.0)
    start = Begun(usable_s=ready, cpu_s=cpu, pss_mb=pss, rss_mb=rss, wire_s=wire)
    return start, first


def _first(request: Request) -> First:
    return First(
        system=len(request.system),
        tools=request.tools,
        tools_size=request.tools_size,
        size=request.size,
        text=f"{request.system}\n{request.text}",
    )


# --- a line while text streams ------------------------------------------------------------------------


def line_while_streaming(found: Installed) -> Typed:
    """Return what Enter does while a reply streams."""
    with opened(found) as (_, model, screen):
        counted = tuple(f"pebble{number} " for number in range(PIECES))
        model.answer(Reply(chunks=counted, delay_s=EVERY_S))
        asking, _ = sent(screen, model, FIRST)
        screen.until(lambda: screen.has("pebble8"))
        has_prompt = screen.is_raw
        screen.type(LINE)
        screen.wait(TYPED_S)
        before, enter = len(model.askings), screen.type("\r")
        stopped = None
        until = enter + LISTENED_S
        while perf_counter() < until and not (stopped and _holds(model, before, LINE)):
            screen.read(0.002)
            if stopped is None and asking.exchange.ended.has_happened:
                stopped = (perf_counter() - enter) * 1e3
        after = next(
            (a.when - enter for a in model.askings[before:] if LINE in a.request.text), None
        )
        if not asking.exchange.client_left:
            stopped = None
        screen.wait(0.5)
    joined = None
    if stopped is None and found.console.reading[0] and has_prompt:
        joined = _line_before_tool(found)
    return Typed(has_prompt=has_prompt, stopped_ms=stopped, sent_after_s=after, joined=joined)


def _holds(model: Model, before: int, words: str) -> bool:
    return any(words in each.request.text for each in model.askings[before:])


def _line_before_tool(found: Installed) -> bool | None:
    """Return whether a line sent before a tool is called comes to the model with the tool's result."""
    with opened(found) as (home, model, screen):
        gate = Gate()
        call = _call(found, found.console.reading, home)
        text = "I look at the stone first."
        model.answer(Reply(text=text, calls=(call,), gate=gate, gate_after=CUT_CALL - 1))
        sent(screen, model, FIRST)
        screen.until(lambda: gate.reached.has_happened)
        screen.wait(1.0)
        typed(screen, LINE)
        screen.type("\r")
        screen.wait(1.0)
        before = len(model.askings)
        gate.open()
        screen.until(lambda: _holds(model, before, LINE), LISTENED_S)
        return LINE in model.askings[before].request.text


def _call(found: Installed, call: tuple[str, str], home: Home, command: str = "") -> Call:
    name, arguments = call
    return Call(name=name, arguments=home.filled(arguments, found, "").replace("$COMMAND", command))


# --- stopped ------------------------------------------------------------------------------------------


def _held_reply(screen: Screen, model: Model) -> Asking:
    """Have a reply stand in the middle of a word."""
    gate = Gate()
    pieces = (*re.findall(r"\S+ ?", BEFORE_CUT), "en and round.\n")
    model.answer(Reply(chunks=pieces, delay_s=0.02, gate=gate, gate_after=len(pieces) - 1))
    asking, _ = sent(screen, model, FIRST)
    screen.until(lambda: gate.reached.has_happened)
    _unless_late(lambda: screen.until(lambda: screen.has(BEFORE_CUT), 3.0))
    screen.wait(0.5)
    return asking


def _unless_late(work: Callable[[], object]) -> bool:
    """Return whether something came in time."""
    try:
        work()
    except TimeoutError:
        return False
    return True


def _stop(screen: Screen, found: Installed, has_ended: Callable[[], bool]) -> float | None:
    """Press the keys that stop; return the milliseconds from the last one, None if nothing stops."""
    for _ in range(2):
        for key in found.console.stop:
            screen.wait(0.3)
            pressed = screen.type(key)
        if _unless_late(lambda: screen.until(has_ended, 6.0, step_s=0.002)):
            return (perf_counter() - pressed) * 1e3
    return None


def stopped_in_a_word(found: Installed) -> Stopped:
    """Return what is left of a reply that was stopped in the middle of a word."""
    with opened(found) as (_, model, screen):
        first = _held_reply(screen, model)
        took = _stop(screen, found, lambda: first.exchange.ended.has_happened)
        screen.wait(1.0)
        on_screen = screen.has(BEFORE_CUT)
        asking, _ = sent(screen, model, NEXT)
        said = asking.request
        return Stopped(
            stopped_ms=took,
            on_screen=on_screen,
            words=FIRST in said.text,
            partial=_kept(said.text),
            mark=_mark(said),
            tail=_tail(said),
        )


def _kept(text: str) -> str:
    """Return how much of the cut text is there: whole, its whole lines or sentences, or nothing."""
    if BEFORE_CUT in text:
        return "whole"
    return "in part" if BEFORE_CUT[:20] in text else ""


def _tail(request: Request) -> tuple[tuple[str, str], ...]:
    """Return what was said after the user's first words, themselves included; everything without them."""
    places = [place for place, (_, text) in enumerate(request.said) if FIRST in text]
    tail = request.said[places[0] :] if places else request.said
    return tuple((role, text[-600:]) for role, text in tail)


def _mark(request: Request) -> str:
    """Return the words that say, after the user's first ones, that something was cut."""
    for _, text in _tail(request)[1:]:
        for line in text.splitlines():
            if MARKED.search(line) and len(line) < LONG:
                return line.strip()[:160]
    return ""


LONG: Final = 400
"""Characters of a line that is an instruction, not a mark."""


# --- tool calls that are stopped ------------------------------------------------------------------------


def call_cut_in_its_arguments(found: Installed) -> Cut | None:
    """Return what is said of a call whose arguments were still coming. None: they come at once there."""
    if not found.console.command[0] or found.console.calls_whole:
        return None
    with opened(found) as (home, model, screen):
        gate = Gate()
        making = "touch made-by-a-cut-call.txt; echo done with it all"
        call = _call(found, found.console.command, home, making)
        model.answer(Reply(text="I make it.", calls=(call,), gate=gate, gate_after=CUT_CALL))
        first, _ = sent(screen, model, FIRST)
        screen.until(lambda: gate.reached.has_happened)
        screen.wait(0.7)
        _stop(screen, found, lambda: first.exchange.ended.has_happened)
        screen.wait(1.0)
        asking, _ = sent(screen, model, NEXT)
        return _cut(
            asking.request,
            "made-by",
            found.console.command[0],
            left=(home.work / "made-by-a-cut-call.txt").exists(),
        )


def call_stopped_while_it_runs(found: Installed) -> Cut | None:
    """Return what is said of a command that was stopped while it ran."""
    if not found.console.command[0]:
        return None
    with opened(found) as (home, model, screen):
        _run_command(found, home, model, screen)
        _stop(screen, found, lambda: not running(WATCH))
        screen.wait(2.0)
        left = bool(running(WATCH))
        asking, _ = sent(screen, model, NEXT)
        cut = _cut(asking.request, WATCH, found.console.command[0], left=left)
        kill(running(WATCH))
        return cut


WATCH: Final = f"tail -f -s {os.getpid() + 31415} stone.txt"
"""A command that goes on for ever, and that nobody else runs. One that only sleeps is refused by some."""


def _run_command(found: Installed, home: Home, model: Model, screen: Screen) -> None:
    call = _call(found, found.console.command, home, WATCH)
    model.answer(Reply(text="I wait.", calls=(call,)))
    sent(screen, model, FIRST)
    screen.until(lambda: bool(running(WATCH)))
    screen.wait(1.0)


def _cut(request: Request, of_call: str, tool: str, *, left: bool) -> Cut:
    tail = _tail(request)
    after = [
        text for role, text in tail[1:] if role not in ("assistant", "model") and NEXT not in text
    ]
    said = _mark(request) or " / ".join(" ".join(text.split()) for text in after)[:160]
    has_name = any(tool in text.splitlines() for _, text in tail)
    kept = "whole" if any(of_call in text for _, text in tail) else "its name" if has_name else ""
    return Cut(said=said, call=kept, tail=tail, left=left)


# --- killed -------------------------------------------------------------------------------------------


def killed_while_streaming(found: Installed) -> Killed:
    """Return what is there after a crash in the middle of a reply, with a line half typed."""
    with opened(found) as (home, model, screen):
        _held_reply(screen, model)
        screen.type(DRAFT)
        screen.wait(1.0)
        return _crashed(found, home, model, screen, screen.pids())


def killed_while_a_tool_runs(found: Installed) -> Killed | None:
    """Return what is there after a crash while a command runs, which is not killed with it."""
    if not found.console.command[0]:
        return None
    with opened(found) as (home, model, screen):
        own = screen.pids()
        _run_command(found, home, model, screen)
        try:
            return _crashed(found, home, model, screen, own)
        finally:
            kill(running(WATCH))


def _crashed(found: Installed, home: Home, model: Model, screen: Screen, own: set[int]) -> Killed:
    own |= same_program(screen.pids(), own)
    kill(own)
    screen.process.wait()
    pause = perf_counter() + 3.0
    while perf_counter() < pause:
        try:
            screen.read(0.1)
        except EOFError:
            break
    while perf_counter() < pause:
        pass
    strays, left = len(screen.pids() - own), bool(running(WATCH))
    if not found.console.resume:
        return Killed(seen=(), asked=(), strays=strays, left=left)
    before = len(model.askings)
    with home.start(found, model.base_url, is_resumed=True) as again:
        prompt = re.compile(found.console.prompt, re.M)
        again.until(lambda: again.is_raw and prompt.search(again.shown) is not None)
        again.wait(4.0)
        seen, text = _there(again.has), again.text
        alone = len(model.askings) > before
        if alone:
            again.rest(1.0)
        question, answer = found.console.question
        if question and question in again.text:
            again.type(answer)
            again.wait(2.0)
        asked: tuple[str, ...] = ()
        mark, tail = "", tuple[tuple[str, str], ...]()
        if _unless_late(lambda: sent(again, model, NEXT, ANSWERED_S)):
            request = model.askings[-1].request
            asked = _there(lambda words: words in request.text)
            mark, tail = _mark(request), _tail(request)
    return Killed(
        seen=seen,
        asked=asked,
        mark=mark,
        alone=alone,
        strays=strays,
        left=left,
        screen=text[-2500:],
        tail=tail,
    )


def _there(has: Callable[[str], bool]) -> tuple[str, ...]:
    whats = {"words": FIRST, "partial": BEFORE_CUT, "draft": DRAFT, "call": WATCH}
    return tuple(what for what, words in whats.items() if has(words))
