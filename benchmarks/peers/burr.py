"""The tasks in Apache Burr, kept by its `SQLitePersister`."""

# mypy: disable-error-code="import-not-found", disallow-untyped-decorators=False
from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, State, action, expr
from burr.core.persistence import SQLitePersister

from benchmarks.peers import Speak, Tool


def kept(folder: Path, building: Any, start: str, **begin: Any) -> Any:
    """Return an application that is kept in the folder, or goes on from there."""
    persister = SQLitePersister.from_values(db_path=str(folder / "burr.db"))
    persister.initialize()
    building = building.with_identifiers(app_id="run").initialize_from(
        persister, resume_at_next_action=True, default_state=begin, default_entrypoint=start
    )
    return building.with_state_persister(persister).build()


# --- loop -----------------------------------------------------------------------------------------


@action(reads=["advice", "rounds"], writes=["draft", "rounds"])
async def write(state: State, speak: Speak) -> State:
    """Write a draft."""
    draft = ""
    async for piece in speak("writer", state["advice"]):
        draft += piece
    return state.update(draft=draft, rounds=state["rounds"] + 1)


@action(reads=["draft"], writes=["advice"])
async def look(state: State, speak: Speak) -> State:
    """Judge it."""
    return state.update(advice="".join([piece async for piece in speak("critic", state["draft"])]))


@action(reads=["draft"], writes=[])
async def finish(state: State) -> State:
    """End."""
    return state


async def loop(folder: Path, speak: Speak) -> Any:
    """Return the last draft."""
    building = (
        ApplicationBuilder()
        .with_actions(write=write.bind(speak=speak), look=look.bind(speak=speak), finish=finish)
        .with_transitions(
            ("write", "look"),
            ("look", "finish", expr("advice == 'good' or rounds >= 4")),
            ("look", "write"),
        )
    )
    application = kept(folder, building, "write", advice="rain", rounds=0)
    _, _, state = await application.arun(halt_after=["finish"])
    return state["draft"]


# --- question -------------------------------------------------------------------------------------


@action(reads=[], writes=[])
async def choose(state: State) -> State:
    """Come before the question."""
    return state


@action(reads=[], writes=["result"])
async def paint(state: State, colour: str, tool: Tool) -> State:
    """Paint in the colour that was answered."""
    return state.update(result=await tool(colour))


def painting(folder: Path, tool: Tool) -> Any:
    """Return the question, and the state after it."""
    building = (
        ApplicationBuilder()
        .with_actions(choose=choose, paint=paint.bind(tool=tool))
        .with_transitions(("choose", "paint"))
    )
    return kept(folder, building, "choose")


async def ask(folder: Path, tool: Tool) -> str:
    """Run to the question."""
    await painting(folder, tool).arun(halt_before=["paint"])
    return "run"


async def answer(folder: Path, asked: str, words: str, tool: Tool) -> Any:
    """Return what comes of the answer."""
    _, _, state = await painting(folder, tool).arun(halt_after=["paint"], inputs={"colour": words})
    return state["result"]


# --- tool -----------------------------------------------------------------------------------------


@action(reads=[], writes=["result"])
async def do(state: State, tool: Tool) -> State:
    """Call the tool."""
    return state.update(result=await tool("done"))


@action(reads=["result"], writes=["report"])
async def report(state: State) -> State:
    """Report."""
    return state.update(report=f"reported {state['result']}")


async def act(folder: Path, tool: Tool) -> Any:
    """Return the report."""
    building = (
        ApplicationBuilder()
        .with_actions(do=do.bind(tool=tool), report=report)
        .with_transitions(("do", "report"))
    )
    _, _, state = await kept(folder, building, "do").arun(halt_after=["report"])
    return state["report"]


go_on = act
