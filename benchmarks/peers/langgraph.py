"""The tasks in LangGraph, kept by its SQLite checkpointer."""

# mypy: disable-error-code="import-not-found"
from pathlib import Path
from typing import Any, Literal, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from benchmarks.peers import Speak, Tool


async def run(folder: Path, building: Any, begin: Any) -> Any:
    """Return the state in which a run ends or waits; `begin` None: it goes on."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        graph = building.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "run"}}
        return await graph.ainvoke(begin, config, durability="sync")


# --- loop -----------------------------------------------------------------------------------------


class Drafting(TypedDict, total=False):
    """A draft, what is said of it, and how many there were."""

    draft: str
    advice: str
    rounds: int


def drafting(speak: Speak) -> Any:
    """Return the loop."""

    async def write(state: Drafting) -> dict[str, Any]:
        draft = ""
        async for piece in speak("writer", state["advice"]):
            draft += piece
        return {"draft": draft, "rounds": state.get("rounds", 0) + 1}

    async def look(state: Drafting) -> Command[Literal["write", "__end__"]]:
        advice = "".join([piece async for piece in speak("critic", state["draft"])])
        is_done = advice == "good" or state["rounds"] >= 4
        return Command(goto=END if is_done else "write", update={"advice": advice})

    building: Any = StateGraph(Drafting).add_node("write", write).add_node("look", look)
    return building.add_edge(START, "write").add_edge("write", "look")


async def loop(folder: Path, speak: Speak) -> Any:
    """Return the last draft."""
    return (await run(folder, drafting(speak), {"advice": "rain"}))["draft"]


# --- question -------------------------------------------------------------------------------------


class Painting(TypedDict, total=False):
    """The colour, and what came of it."""

    colour: str
    result: str


def painting(tool: Tool) -> Any:
    """Return the question, and the state after it."""

    async def choose(state: Painting) -> dict[str, Any]:
        return {"colour": interrupt("Which colour?")}

    async def paint(state: Painting) -> dict[str, Any]:
        return {"result": await tool(state["colour"])}

    building: Any = StateGraph(Painting).add_node("choose", choose).add_node("paint", paint)
    return building.add_edge(START, "choose").add_edge("choose", "paint")


async def ask(folder: Path, tool: Tool) -> Any:
    """Return the question's id."""
    return (await run(folder, painting(tool), {}))["__interrupt__"][0].id


async def answer(folder: Path, asked: str, words: str, tool: Tool) -> Any:
    """Return what comes of the answer."""
    return (await run(folder, painting(tool), Command(resume={asked: words})))["result"]


# --- tool -----------------------------------------------------------------------------------------


class Acting(TypedDict, total=False):
    """What came of the tool, and the report."""

    result: str
    report: str


def acting(tool: Tool) -> Any:
    """Return the tool, and the report after it."""

    async def do(state: Acting) -> dict[str, Any]:
        return {"result": await tool("done")}

    async def report(state: Acting) -> dict[str, Any]:
        return {"report": f"reported {state['result']}"}

    building: Any = StateGraph(Acting).add_node("do", do).add_node("report_it", report)
    return building.add_edge(START, "do").add_edge("do", "report_it")


async def act(folder: Path, tool: Tool) -> Any:
    """Return the report."""
    return (await run(folder, acting(tool), {}))["report"]


async def go_on(folder: Path, tool: Tool) -> Any:
    """Return the report."""
    return (await run(folder, acting(tool), None))["report"]
