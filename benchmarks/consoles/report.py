"""The tables of docs/compared.md, made from what was found and nothing else."""

import os
import platform
import re
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from benchmarks.consoles.start import Installed
from benchmarks.consoles.steps import ANSWERED_S, MARKED, Begun, Cut, First, Killed, Stopped, Typed
from benchmarks.measuring import number


class Row(msgspec.Struct, kw_only=True):
    """What was found of a console; `troubles` says of a step why nothing came of it."""

    console: Installed
    load: float = 0.0
    starts: list[Begun] = []
    first: First | None = None
    typed: Typed | None = None
    stopped: Stopped | None = None
    cut: Cut | None = None
    tool: Cut | None = None
    killed: Killed | None = None
    killed_in_tool: Killed | None = None
    troubles: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Return the console's name."""
        return self.console.console.name


Columns = dict[str, Callable[[Row], str]]

NONE: Final = "–"
STOPPED: Final = "stopped in a word"
"""The step of that name, whose trouble may be that the console ended."""

FEATURES: Final[dict[str, tuple[str, str]]] = {
    "fetches pages": (r"web_?fetch|fetch", ""),
    "searches the web": (r"web_?search", r"--search"),
    "a todo list": (r"todo|update_plan|task_?create", ""),
    "plans first": (r"plan_?mode", r"\bplan\b"),
    "asks with a tool": (r"ask_?user|request_user|^question$", ""),
    "sub-agents": (r"^(agent|task|delegate|spawn_agent|invoke_agent)$", r"--agents?\b"),
    "background commands": (r"background|write_stdin|^tasks$|^monitor$", r"--background"),
    "skills": (r"skill", r"\bskills?\b"),
    "hooks": ("", r"(?<!commit )\bhooks?\b"),
    "images": (r"(view|read)_image", r"--image|@image|image\("),
    "worktrees": (r"worktree", r"--worktree"),
    "MCP": (r"mcp", r"\bmcp\b"),
    "ACP": ("", r"\bacp\b"),
    "forks a chat": ("", r"\bfork\b"),
}
"""What is looked for: among the names of the tools offered, else in the help."""


def tables(rows: Sequence[Row]) -> str:
    """Return everything that was found, as Markdown."""
    consoles = [row for row in rows if not row.console.console.is_floor]
    run = [row for row in consoles if not row.console.trouble]
    parts = [
        _head(rows),
        "### From the start to the first request",
        _table(run, _start_columns()),
        "### Typing while it works, and stopping",
        _table(run, _TYPING),
        "### A tool call that is cut",
        _table(run, _CALLS),
        "### `kill -9`, then resumed",
        _table(run, _CRASH),
        "### What the tools offered and the help name",
        _features(run),
    ]
    not_run = [f"* {row.name}: {row.console.trouble}" for row in consoles if row.console.trouble]
    troubled = [
        f"* {row.name}, {what}: {' '.join(why.split())[:110]}"
        for row in run
        for what, why in row.troubles.items()
        if not (what == STOPPED and "EOFError" in why)
    ]
    parts += ["### Not run", *not_run] if not_run else []
    parts += ["### Steps that nothing came of", *troubled] if troubled else []
    return "\n\n".join(parts[:-1]) + f"\n\n{parts[-1]}\n"


def _head(rows: Sequence[Row]) -> str:
    load = max((row.load for row in rows), default=0.0)
    return (
        f"{datetime.now(UTC).strftime('%d %B %Y').lstrip('0')}, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load up to {load:.0f}; "
        "medians of all starts."
    )


def _table(rows: Sequence[Row], columns: Columns) -> str:
    lines = [f"| | {' | '.join(columns)} |", "| --- |" + " --- |" * len(columns)]
    for row in rows:
        cells = [_safe(cell(row)) for cell in columns.values()]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _safe(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- columns --------------------------------------------------------------------------------------


def _start_columns() -> Columns:
    def ratio(row: Row) -> str:
        ratios = [each.usable_s / each.floor_s for each in row.starts if each.floor_s]
        if not ratios:
            return NONE
        return f"{number(statistics.median(ratios))} ({number(_median(row, 'usable_s'))} s)"

    def memory(row: Row) -> str:
        pss, rss = _median(row, "pss_mb"), _median(row, "rss_mb")
        return f"{pss:.0f} ({rss:.0f})" if row.starts else NONE

    return {
        "version": lambda row: row.console.version,
        "starts": lambda row: str(len(row.starts)),
        "prompt takes keys, × a bare prompt": ratio,
        "CPU s": lambda row: number(_median(row, "cpu_s")) if row.starts else NONE,
        "memory, MB: PSS (RSS)": memory,
        "first Enter to the wire, s": lambda row: (
            number(_median(row, "wire_s")) if row.starts else NONE
        ),
        "system prompt, characters": lambda row: f"{row.first.system:,}" if row.first else NONE,
        "tools": lambda row: str(len(row.first.tools)) if row.first else NONE,
        "their definitions, characters": lambda row: (
            f"{row.first.tools_size:,}" if row.first else NONE
        ),
        "the whole request, KB": lambda row: number(row.first.size / 1000) if row.first else NONE,
    }


def _median(row: Row, field: str) -> float:
    values: list[float | None] = [getattr(each, field) for each in row.starts]
    return statistics.median([value for value in values if value is not None] or [0.0])


def _enter(row: Row) -> str:
    typed = row.typed
    if typed is None:
        return NONE
    if not typed.has_prompt:
        return "no prompt meanwhile; the terminal keeps the line"
    if typed.stopped_ms is not None:
        return f"stops it in {typed.stopped_ms:.0f} ms, and sends the line"
    if typed.sent_after_s is None:
        return "is not sent"
    if typed.joined:
        return "waits for the end of the reply, then joins the turn"
    return "waits for the end of the turn"


def _quoted(text: str) -> str:
    """Return the words about a cut, with some of what is around them."""
    match = MARKED.search(text)
    begin = max(0, match.start() - 60) if match and len(text) > 90 else 0
    return f"`{'…' if begin else ''}{text[begin : begin + 110].strip()}`"


def _stop(row: Row) -> str:
    name = row.console.console.stop_name
    if row.stopped is None:
        # A console that ends has no next request.
        return f"{name}: ends the console" if "EOFError" in row.troubles.get(STOPPED, "") else NONE
    took = row.stopped.stopped_ms
    return f"{name}: {took:.0f} ms" if took is not None else f"{name}: does not stop it"


def _next(row: Row) -> str:
    stopped = row.stopped
    if stopped is None:
        return NONE
    kept = {"whole": "kept", "in part": "kept in part", "": "dropped"}[stopped.partial]
    return kept if stopped.words else f"{kept}, with the user's own words"


def _marked(row: Row) -> str:
    if row.stopped is None:
        return NONE
    return _quoted(row.stopped.mark) if row.stopped.mark else "no"


def _said(which: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        cut: Cut | None = getattr(row, which)
        if cut is None:
            return (
                "its API sends a call whole"
                if row.console.console.calls_whole and which == "cut"
                else NONE
            )
        said = _quoted(cut.said) if cut.said else "nothing"
        kept = {
            "whole": "",
            "its name": "the call without its arguments: ",
            "": "without the call: ",
        }
        return f"{kept[cut.call]}{said}"

    return cell


def _ran(row: Row) -> str:
    if row.tool is None:
        return NONE
    return "goes on" if row.tool.left else "ended"


def _of(which: str, field: str) -> Callable[[Row], str]:
    words = {
        "words": "the words",
        "partial": "the cut text",
        "draft": "the draft",
        "call": "the call",
    }

    def cell(row: Row) -> str:
        killed: Killed | None = getattr(row, which)
        if killed is None:
            return NONE
        if field == "asked" and not killed.tail:
            return f"no request within {ANSWERED_S:.0f} s"
        there = [words[each] for each in getattr(killed, field)]
        if field == "asked" and killed.alone:
            there.append("asks by itself")
        if field == "asked" and killed.mark:
            there.append(_quoted(killed.mark))
        return ", ".join(there) or "nothing"

    return cell


def _left(row: Row) -> str:
    killed = row.killed_in_tool
    if killed is None:
        return NONE
    return f"goes on ({killed.strays} left)" if killed.left else "ended"


_TYPING: Final[Columns] = {
    "Enter while text streams": _enter,
    "the stop key": _stop,
    "the cut text stays on the screen": lambda row: (
        NONE if row.stopped is None else "yes" if row.stopped.on_screen else "no"
    ),
    "and in the next request": _next,
    "marked as cut there": _marked,
}
_CALLS: Final[Columns] = {
    "cut while its arguments stream: the next request says": _said("cut"),
    "stopped while it runs: the next request says": _said("tool"),
    "its program": _ran,
}
_CRASH: Final[Columns] = {
    "while text streams: on the screen": _of("killed", "seen"),
    "in the next request": _of("killed", "asked"),
    "while a command runs: on the screen": _of("killed_in_tool", "seen"),
    "in the next request then": _of("killed_in_tool", "asked"),
    "the command": _left,
}


def _features(rows: Sequence[Row]) -> str:
    """Return a row for each feature: there are more of them than of consoles."""
    lines = [f"| | {' | '.join(row.name for row in rows)} |", "| --- |" + " --- |" * len(rows)]
    for what in FEATURES:
        named = _named(what)
        lines.append(f"| {what} | {' | '.join(_safe(named(row)) for row in rows)} |")
    return "\n".join(lines)


def _named(what: str) -> Callable[[Row], str]:
    tool, flag = FEATURES[what]

    def cell(row: Row) -> str:
        names = [*row.first.tools, *_deferred(row.first.text)] if row.first else []
        if tool and (found := [each for each in names if re.search(tool, each, re.I)]):
            return f"`{found[0]}`"
        if flag and (match := re.search(rf"\S*{flag}\S*", row.console.help, re.I)):
            return f"`{match[0].strip('[],.;:()')}`"
        return NONE

    return cell


def _deferred(text: str) -> list[str]:
    """Return names that stand alone in a line: tools a request only names, to be looked up when wanted."""
    return re.findall(r"^[-* ]*([A-Za-z]\w{3,30})$", text, re.M)
