"""tasks: what has become of commands in the background; they are begun by execute_terminal."""

import asyncio
import re
import socket
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal

import msgspec

from midstream.core.background import ENDED, RUNS, TASKS
from midstream.core.costs import counted
from midstream.language.errors import BadText, UserMistake, did_you_mean
from midstream.language.patterns import Pattern, compiled
from midstream.runtime.background import Background, Command
from midstream.runtime.ports import ToolContext
from midstream.system.offloop import in_thread
from midstream.system.own_process import beginning, ending
from midstream.tools.base import Tool, tool, tool_from
from midstream.tools.tool_text import in_one_line, shortened

MAX_WAIT_S: Final = 600.0
TAIL_LINES: Final = 60
TAIL_CHARS: Final = 12_000
MAX_LINE_CHARS: Final = 500

_HOW_CHARS: Final = 2_000
_MAX_COST: Final = 200_000
_LOOK_EVERY_S: Final = 0.2
_STOPS_IN_S: Final = 10.0
_PORT: Final = re.compile(r"port (\d{1,5})")


@tool(effect="read", timeout_s=MAX_WAIT_S + 30, name=TASKS)
async def tasks(
    action: Annotated[
        Literal["list", "tail", "wait", "stop"],
        msgspec.Meta(
            description="list all; tail: the last it printed; wait: until it ends or `until` holds; "
            "stop: end it with all it started."
        ),
    ],
    context: ToolContext,
    handle: Annotated[
        str, msgspec.Meta(max_length=40, description="Such as task-3; not needed if only one runs.")
    ] = "",
    until: Annotated[
        str,
        msgspec.Meta(
            max_length=300,
            description="wait: a pattern (regular expression) it prints, or `port 8000` until that is "
            "open on this machine. tail: only lines with the pattern.",
        ),
    ] = "",
    timeout_s: Annotated[
        float, msgspec.Meta(ge=0, le=MAX_WAIT_S, description="Seconds to wait at most.")
    ] = 60.0,
) -> str:
    """Look at, wait for and stop commands that run in the background."""
    background = context.background
    known = () if background is None else background.commands()
    if action == "list":
        return "\n".join(map(_line, known)) or "Nothing runs in the background."
    if background is None:
        raise UserMistake("Nothing runs in the background.", hint="execute_terminal begins one.")
    command = _named(known, handle)
    match action:
        case "tail":
            lines = await in_thread(partial(_lines, command, _pattern(until)))
            return f"{_line(command)}\n\n{_tail(lines)}"
        case "wait":
            said = await _waited(command, until, timeout_s)
        case "stop":
            said = await _stopped(background, command)
    lines = await in_thread(partial(_lines, command, None))
    return f"{said}\n{_line(command)}\n\n{_tail(lines)}".lstrip("\n")


def _named(known: Sequence[Command], handle: str) -> Command:
    by_handle = {each.handle: each for each in known}
    running = [each for each in known if each.ended is None]
    if not handle and len(running or known) == 1:
        return (running or known)[0]
    if handle in by_handle:
        return by_handle[handle]
    what = f"There is no command {handle!r}." if handle else "Which one is not said."
    hint = did_you_mean(handle, by_handle) if handle else ", ".join(by_handle)
    raise UserMistake(what, hint=hint or "tasks(action=list) lists them.")


def _line(command: Command) -> str:
    what = shortened(in_one_line(command.line), 200)
    if command.ended is not None:
        return (
            f"{command.handle} {ENDED}: {in_one_line(beginning(command.how, _HOW_CHARS))} ({what})"
        )
    return f"{command.handle} {RUNS} for {time.monotonic() - command.began_at:.0f} s ({what})"


def _pattern(text: str) -> Pattern | None:
    try:
        return compiled(text) if text else None
    except BadText as error:
        raise UserMistake(
            f"`until` is no pattern: {error}", hint="Such as: ready|listening"
        ) from error


def _holds(pattern: Pattern, text: str) -> bool:
    """Return whether a text has a pattern; blocks for a moment at most."""
    if pattern.cost(text) > _MAX_COST:
        raise UserMistake("The pattern takes too long.", hint="Use a plainer one.")
    return pattern.is_in(text)


def _lines(command: Command, pattern: Pattern | None) -> list[str]:
    lines = command.output.text().splitlines()
    return lines if pattern is None else [line for line in lines if _holds(pattern, line)]


def _tail(lines: Sequence[str]) -> str:
    shown = [shortened(line, MAX_LINE_CHARS) for line in lines[-TAIL_LINES:]]
    text = "\n".join(shown)
    if len(text) > TAIL_CHARS:
        text = ending(text, TAIL_CHARS)
    left = len(lines) - len(shown)
    return f"[{counted(left, 'line')} before]\n{text}" if left else text or "(no output)"


async def _waited(command: Command, until: str, timeout_s: float) -> str:
    """Return what the wait came to, "" where the command has ended."""
    port = _PORT.fullmatch(until)
    pattern = None if port else _pattern(until)
    ends_at = time.monotonic() + timeout_s
    while True:
        command.changed.clear()
        if pattern is not None:
            text = await in_thread(command.output.text)
            if await in_thread(partial(_holds, pattern, text)):
                return f"It has printed {until!r}."
        if port is not None and await in_thread(partial(_is_open, int(port[1]))):
            return f"Port {port[1]} is open."
        if command.ended is not None:
            return ""
        left = ends_at - time.monotonic()
        if left <= 0:
            return f"After {timeout_s:g} s it has not come to that; it goes on."
        try:
            async with asyncio.timeout(min(left, _LOOK_EVERY_S) if port else left):
                await command.changed.wait()
        except TimeoutError:
            continue
        if pattern is not None:
            # What is printed all the time is looked through now and then.
            await asyncio.sleep(min(_LOOK_EVERY_S, max(0.0, left)))


def _is_open(port: int) -> bool:
    if not 0 < port < 65_536:
        raise UserMistake(f"{port} is no port.", hint="Such as: port 8000")
    try:
        with socket.create_connection(("localhost", port), timeout=1.0):
            return True
    except OSError:
        return False


async def _stopped(background: Background, command: Command) -> str:
    if command.ended is not None:
        return ""
    background.stop(command.handle)
    try:
        async with asyncio.timeout(_STOPS_IN_S):
            while command.ended is None:
                command.changed.clear()
                await command.changed.wait()
    except TimeoutError:
        return f"It has not ended within {_STOPS_IN_S:g} s."
    return ""


TOOLS: tuple[Tool, ...] = (tool_from(tasks),)
