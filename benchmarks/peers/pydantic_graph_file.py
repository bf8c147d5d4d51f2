"""The tasks in pydantic-graph 1, kept by its `FileStatePersistence`. Version 2 keeps nothing."""

# mypy: ignore-errors
# The types of version 1: the development's environment has version 2.
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence

from benchmarks.peers import Speak, Tool


def kept(folder: Path) -> Any:
    """Return what keeps a run in the folder."""
    return FileStatePersistence(json_file=folder / "run.json")


# --- loop -----------------------------------------------------------------------------------------


@dataclass
class Drafting:
    """A draft, what is said of it, and how many there were."""

    draft: str = ""
    advice: str = "rain"
    rounds: int = 0


@dataclass
class Write(BaseNode[Drafting, Speak, str]):
    """Write a draft."""

    async def run(self, ctx: GraphRunContext[Drafting, Speak]) -> "Look":
        """Write."""
        draft = ""
        async for piece in ctx.deps("writer", ctx.state.advice):
            draft += piece
        ctx.state.draft, ctx.state.rounds = draft, ctx.state.rounds + 1
        return Look()


@dataclass
class Look(BaseNode[Drafting, Speak, str]):
    """Judge it."""

    async def run(self, ctx: GraphRunContext[Drafting, Speak]) -> Write | End[str]:
        """Judge."""
        advice = "".join([piece async for piece in ctx.deps("critic", ctx.state.draft)])
        ctx.state.advice = advice
        is_done = advice == "good" or ctx.state.rounds >= 4
        return End(ctx.state.draft) if is_done else Write()


drafting = Graph(nodes=(Write, Look))


async def loop(folder: Path, speak: Speak) -> str:
    """Return the last draft."""
    begin = Drafting()
    ended = await drafting.run(Write(), state=begin, deps=speak, persistence=kept(folder))
    return ended.output


# --- question -------------------------------------------------------------------------------------


@dataclass
class Choose(BaseNode[None, Tool, str]):
    """Come before the question."""

    async def run(self, ctx: GraphRunContext[None, Tool]) -> "Paint":
        """Ask."""
        return Paint()


@dataclass
class Paint(BaseNode[None, Tool, str]):
    """Paint in the colour that was answered."""

    colour: str = ""

    async def run(self, ctx: GraphRunContext[None, Tool]) -> End[str]:
        """Paint."""
        return End(await ctx.deps(self.colour))


painting = Graph(nodes=(Choose, Paint))


async def ask(folder: Path, tool: Tool) -> str:
    """Run to the question."""
    async with painting.iter(Choose(), deps=tool, persistence=kept(folder)) as run:
        await run.next()
    return "run"


async def answer(folder: Path, asked: str, words: str, tool: Tool) -> str:
    """Return what comes of the answer."""
    async with painting.iter_from_persistence(kept(folder), deps=tool) as run:
        await run.next(Paint(words))
    return run.result.output


# --- tool -----------------------------------------------------------------------------------------


@dataclass
class Do(BaseNode[None, Tool, str]):
    """Call the tool."""

    async def run(self, ctx: GraphRunContext[None, Tool]) -> "Report":
        """Call it."""
        return Report(await ctx.deps("done"))


@dataclass
class Report(BaseNode[None, Tool, str]):
    """Report."""

    result: str

    async def run(self, ctx: GraphRunContext[None, Tool]) -> End[str]:
        """Report."""
        return End(f"reported {self.result}")


acting = Graph(nodes=(Do, Report))


async def act(folder: Path, tool: Tool) -> str:
    """Return the report."""
    return (await acting.run(Do(), deps=tool, persistence=kept(folder))).output


async def go_on(folder: Path, tool: Tool) -> str:
    """Return the report."""
    async with acting.iter_from_persistence(kept(folder), deps=tool) as run:
        async for _ in run:
            pass
    return run.result.output
