"""Commands that only look: where the run stands, its graph, its turns, what fills a model's window."""

import json
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from midstream.app.commands.command import command, room
from midstream.app.run_sentences import run_line
from midstream.app.session import Session
from midstream.config.private_files import make_private
from midstream.core.costs import counted
from midstream.core.events import AgentResponded, Interrupted, ReplyCut
from midstream.core.notices import Envelope
from midstream.core.routing import living
from midstream.core.run import Run
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Json
from midstream.language.spec import Definition
from midstream.runtime.engine.run_file import write_new
from midstream.runtime.ports import Machine
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.views.context_window import agents_of, filling_lines, filling_of
from midstream.views.graph import graph_of
from midstream.views.graph_marks import NO_MARKS, marks_of
from midstream.views.graph_painters import drawing
from midstream.views.state_tree import state_tree, tree_lines
from midstream.views.turns import history_lines, history_of

_TURNS = 20
_SHOWN_DATA = 20_000
"""Characters of common_data that `/state KEY` shows."""

_TMUX_S: Final = 5.0

DATA = "common_data"


def _active(session: Session) -> Run | None:
    machine = session.active()
    return None if machine is None or machine.run.definition is None else machine.run


def _asked(session: Session) -> Run:
    run = _active(session)
    if run is None:
        raise UserMistake("Nothing has been said yet.", hint="/runs lists kept runs.")
    return run


def _shown(session: Session) -> Run | None:
    """Return the run `/state` is about: a workflow that has just ended, else the active run."""
    ended = session.switching.ended()
    return _active(session) if ended is None else ended.run


def _keys(session: Session) -> list[tuple[str, str]]:
    run = _shown(session)
    return [] if run is None else [(key, "") for key in (*run.common_data, DATA)]


@command(
    "state",
    "where the run stands, as a tree; or a value of its common_data",
    arguments="[KEY]",
    complete=_keys,
)
async def _state(session: Session, argument: str) -> None:
    if argument:
        session.ui.say(_value(_shown(session) or _asked(session), argument))
        return
    run = _shown(session)
    words = NONE_ACTIVE if session.switching.ended() is not None else ""
    if run is None:
        words = f"Mode {session.switching.mode}. Nothing has been said yet."
        run = await workflow_before(session)
        if run is None:
            session.ui.say(words)
            return
        words = f"{words} {NONE_ACTIVE}"
    drawing = partial(state_tree, run, title=run_line(run), now=time.time())
    lines = tree_lines(await in_thread(drawing), width=room())
    if words:
        lines.insert(0, words)
    if run.common_data:
        lines.append(f"/state KEY shows a value, /state {DATA} all of it.")
    session.ui.say("\n".join(lines))


def _value(run: Run, key: str) -> str:
    """Return a value of the run's data as JSON, or all of it."""
    value: Json = run.common_data
    if key != DATA:
        if key not in run.common_data:
            hint = did_you_mean(key, run.common_data)
            raise UserMistake(f"The run's {DATA} has no {key!r}.", hint=hint)
        value = run.common_data[key]
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    left_out = len(text) - _SHOWN_DATA
    return text if left_out <= 0 else f"{text[:_SHOWN_DATA]}\n... (+{left_out} characters)"


@command(
    "history", "the turns of the run: who, what, tools, tokens, cost", arguments="[NUMBER | all]"
)
async def _history(session: Session, argument: str) -> None:
    most = _TURNS
    if argument == "all":
        most = 1_000_000
    elif argument:
        if not argument.isdecimal() or not int(argument):
            raise UserMistake(
                f"{argument!r} is not a number of turns.", hint="/history 50, or all."
            )
        most = int(argument)
    run = _asked(session)
    # A long run has many facts, and large contexts: what counts them does so off the loop.
    turns = await in_thread(partial(history_of, await session.history.facts()))
    if not turns:
        session.ui.say(f"No turn yet: {run_line(run)}")
        return
    session.ui.say("\n".join(history_lines(turns, width=room(), most=most, now=time.time())))


def _agents(session: Session) -> list[tuple[str, str]]:
    run = _active(session)
    return [] if run is None else [(name, "") for name in agents_of(run)]


@command("context", "what fills the model's window, by kind", arguments="[AGENT]", complete=_agents)
async def _context(session: Session, argument: str) -> None:
    run = _asked(session)
    places = [run, *living(run)]
    if argument:
        known = {name for place in places for name in agents_of(place)}
        if argument not in known:
            hint = did_you_mean(argument, known)
            raise UserMistake(f"The run has no agent {argument!r}.", hint=hint)
        found = [(place, argument) for place in places if argument in agents_of(place)]
    else:
        asked = [
            (place, place.visit.turn.agent) for place in places if place.visit.turn is not None
        ]
        found = [(place, agent) for place, agent in asked if agent]
        found = found or [(run, agent) for agent in agents_of(run)[:1]]
    if not found:
        session.ui.say("The run has no agents: nothing is sent to a model.")
        return
    lines: list[str] = []
    for place, agent in found[:_SHOWN_FILLINGS]:
        filling = await in_thread(partial(filling_of, place, agent))
        model, window = await session.parts.models.window(filling.level)
        lines += [""] * bool(lines)
        lines += filling_lines(filling, model=model, window=window, width=room())
    if len(found) > _SHOWN_FILLINGS:
        lines.append(f"+{len(found) - _SHOWN_FILLINGS} more at work; /context AGENT shows one.")
    session.ui.say("\n".join(lines))


_SHOWN_FILLINGS = 4


@command(
    "verbose",
    "show results of tools and reasoning in full, or on one line",
    arguments="[on | off]",
    complete=lambda _session: [("on", "in full"), ("off", "on one line")],
)
async def _verbose(session: Session, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise UserMistake(
            f"/verbose takes on or off, not {argument!r}.", hint="Without an argument it switches."
        )
    session.is_verbose = argument == "on" if argument else not session.is_verbose
    session.ui.show_in_full("on" if session.is_verbose else "off")
    if session.is_verbose:
        session.ui.say("Results of tools and reasoning are shown in full. /verbose off: one line.")
    else:
        session.ui.say("Results of tools are one line; /last shows the last in full.")


_REPLY, _CODE = "reply", "code"
_FENCE = re.compile(r" *+(```++|~~~++)([^`]*+)")


@command(
    "copy",
    "the last reply, or block of code, or the Nth last, into the clipboard or a file",
    arguments="[code] [N]",
    complete=lambda _session: [("code", "the last block of code")],
)
async def _copy(session: Session, argument: str) -> None:
    what, _, number = (
        argument.partition(" ") if argument.startswith(_CODE) else (_REPLY, "", argument)
    )
    if (what, number) != (what, "") and not (number.isdecimal() and int(number)):
        raise UserMistake(
            f"/copy takes no {argument!r}.", hint="/copy, /copy 2, /copy code, /copy code 2."
        )
    _asked(session)
    found = [text for text in map(_words, await session.history.facts()) if text]
    if what == _CODE:
        found = [block for text in found for block in _fenced(text)]
    at = int(number or 1)
    if at > len(found):
        raise UserMistake(
            f"There is no {what} number {at} here.",
            hint=f"/copy counts from the last one back; there are {len(found)}.",
        )
    text = found[-at]
    where = "in the clipboard"
    if not session.ui.copy(text):
        path = await in_thread(partial(_write_copy, session.config.state_dir, text))
        where = f"in {path}"
        workspace = session.config.workspace
        if session.is_attended and await in_thread(partial(_is_in_tmux, path, workspace)):
            where = f"in tmux's buffer, which prefix ] pastes, and {where}"
    session.ui.say(f"{counted(len(text.splitlines()), 'line')} {where}.")


def _write_copy(state_dir: Path, text: str) -> Path:
    """Put a text into a new file, where there is no clipboard; return its path."""
    folder = state_dir / "exports"
    make_private(folder)
    number = 1
    while (path := folder / f"copy-{number}.md").exists():
        number += 1
    write_new(path, [sanitized(text).encode("utf-8", "replace")])
    return path


def _is_in_tmux(path: Path, workspace: Path) -> bool:
    """Put a file into the newest buffer of the tmux we are in, and return whether that went well. Blocks.

    tmux hands it on to the clipboard of terminals that it knows to take it.
    """
    # Not needed before something is copied.
    from midstream.system.programs import found_program
    from midstream.system.supervisor import run_briefly

    program = found_program("tmux", workspace) if os.environ.get("TMUX") else None
    if program is None:
        return False
    # Of the person's own environment: it says which tmux it is.
    try:
        ended, _ = run_briefly(
            (program, "load-buffer", "-w", str(path)),
            environment=os.environ,
            timeout_s=_TMUX_S,
            max_bytes=1_000,
        )
    except OSError:
        return False
    return ended.exit_code == 0 and not ended.cause


def _words(envelope: Envelope) -> str:
    match envelope.event:
        case AgentResponded(text=text) | Interrupted(partial=text) | ReplyCut(partial=text):
            return text.strip("\n")
        case _:
            return ""


def _fenced(text: str) -> Iterator[str]:
    """Yield what stands between fences, line by line: one that is not closed is looked at once."""
    fence, inside = "", list[str]()
    for line in text.splitlines(keepends=True):
        found = _FENCE.fullmatch(line.rstrip("\n"))
        if fence and found is not None and found[1] == fence and not found[2].strip(" "):
            yield "".join(inside)
            fence = ""
        elif fence:
            inside.append(line)
        elif found is not None:
            fence, inside = found[1], []


@command("last", "show the last tool result or reasoning in full; again: the one before (Ctrl-O)")
async def _last(session: Session, argument: str) -> None:
    session.ui.show_in_full("last")


NONE_ACTIVE: Final = "No workflow is active; this is the last one:"
"""Said above what is shown of a workflow that has ended."""

_FOLLOW: Final = ("follow", "keep it above the prompt while the run goes on")
_OFF: Final = ("off", "stop following")


@command(
    "graph",
    "draw the active workflow and where it is, or another; follow: keep it in sight",
    arguments="[NAME | follow | off]",
    complete=lambda session: [
        _FOLLOW,
        _OFF,
        *sorted(session.parts.library.workflows().items()),
    ],
)
async def _graph(session: Session, argument: str) -> None:
    if argument == _OFF[0]:
        session.ui.follow(None)
        session.ui.say("No graph is followed now.")
        return
    active = workflow_of(session.active())
    if argument == _FOLLOW[0]:
        await _follow(session, active)
    elif argument:
        definition, _ = await session.parts.library.load(argument)
        session.ui.say(await in_thread(partial(_drawn, definition, None)))
    elif active is not None:
        await _draw(session, active.run)
    elif (run := await workflow_before(session)) is not None:
        await _draw(session, run, f"{NONE_ACTIVE} {run_line(run)}")
    else:
        hint = "/graph NAME draws one that does not run; /workflows lists them."
        raise UserMistake("No workflow is active.", hint=hint)


async def _follow(session: Session, machine: Machine | None) -> None:
    if machine is None:
        hint = "/workflow NAME starts one; /graph NAME draws one that is not running."
        raise UserMistake("No workflow is active.", hint=hint)
    if session.ui.follow(session.switching.follow(machine)):
        session.ui.say(
            "The graph stays above the prompt until the run is over. /graph off takes it away."
        )
        return
    words = "Following a graph needs a terminal. The graph now:"
    await _draw(session, machine.run, words)


async def _draw(session: Session, run: Run, words: str = "") -> None:
    assert run.definition is not None, "a workflow that has begun has one"
    # Of a large workflow it takes longer than a key may wait.
    picture = await in_thread(partial(_drawn, run.definition, run))
    session.ui.say(f"{words}\n{picture}" if words else picture)


def _drawn(definition: Definition, run: Run | None) -> str:
    graph = graph_of(definition)
    marks = NO_MARKS if run is None else marks_of(run, graph)
    return drawing(graph, width=room(100), marks=marks)


def workflow_of(machine: Machine | None) -> Machine | None:
    """Return a run if it is a workflow's that has begun: a chat has no states for a person."""
    definition = None if machine is None else machine.run.definition
    return None if definition is None or definition.kind == "chat" else machine


async def workflow_before(session: Session) -> Run | None:
    """Return the workflow that ended last: of this console, else of the workspace; None without one."""
    if (machine := session.switching.ended()) is not None:
        return machine.run
    own = (m.run for m in reversed(session.runs.all()) if workflow_of(m) and m.run.is_over)
    return next(own, None) or await session.background.ended()
