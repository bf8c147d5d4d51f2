"""The tasks in midstream: workflows in Python, the journal in a file."""

from pathlib import Path
from typing import Any

import midstream
from benchmarks.peers import Speak, Tool
from midstream import StateRun, Workflow, stop
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener


def opened(folder: Path, **settings: Any) -> Any:
    """Return an engine whose runs are kept in the folder."""
    journal = folder / "journal.db"
    return midstream.open(folder, journal=journal, permissions="full", trust=False, **settings)


# --- loop -----------------------------------------------------------------------------------------


class Spoken:
    """A model whose replies `speak` yields. With a provider's model nobody writes this."""

    def __init__(self, speak: Speak) -> None:
        self.speak = speak

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return a reply, told as it comes."""
        text = ""
        async for piece in self.speak(request.agent, request.messages[-1].text):
            listener.text(piece)
            text += piece
        return ModelReply(text=text)


drafting = Workflow("drafting", input=str)
writer = drafting.agent("writer", system="You write.")
critic = drafting.agent("critic", system="You judge.", sees="user")


@drafting.start(ask=writer, prompt="${input}")
def write(run: StateRun) -> Any:
    """Write a draft."""
    run.data["draft"] = run.reply
    run.data["rounds"] = run.data.get("rounds", 0) + 1
    return look


@drafting.state(ask=critic, prompt="Is it good?")
def look(run: StateRun) -> Any:
    """Judge it."""
    is_done = run.reply == "good" or run.data["rounds"] >= 4
    return stop(run.data["draft"]) if is_done else write


async def loop(folder: Path, speak: Speak) -> Any:
    """Return the last draft."""
    async with opened(folder, model=Spoken(speak)) as engine:
        run = await engine.start(drafting, "rain")
        return await run.wait()


# --- question -------------------------------------------------------------------------------------

painting = Workflow("painting")


@painting.start(question="Which colour?", save_as="colour")
def choose(run: StateRun) -> Any:
    """Take the answer."""
    return paint


@painting.state(call="tool", arguments={"words": "${common_data.colour}"})
def paint(run: StateRun) -> Any:
    """Report."""
    return stop(run.result)


async def ask(folder: Path, tool: Tool) -> str:
    """Return the run and its question."""
    async with opened(folder, model="offline", tools=[tool]) as engine:
        run = await engine.start(painting)
        await run.settled()
        return f"{run.id} {run.questions[0].id}"


async def answer(folder: Path, asked: str, words: str, tool: Tool) -> Any:
    """Return what comes of the answer."""
    id, question = asked.split()
    async with opened(folder, model="offline", tools=[tool]) as engine:
        run = await engine.resume(id, painting)
        receipt = await run.answer(question, words)
        return receipt.reason if receipt.handling == "reject" else await run.wait()


# --- tool -----------------------------------------------------------------------------------------

acting = Workflow("acting")


@acting.start(call="tool", arguments={"words": "done"})
def do(run: StateRun) -> Any:
    """Keep the result."""
    run.data["result"] = run.result
    return report


@acting.state
def report(run: StateRun) -> Any:
    """Report."""
    return stop(f"reported {run.data['result']}")


async def act(folder: Path, tool: Tool) -> Any:
    """Return the report."""
    async with opened(folder, model="offline", tools=[tool]) as engine:
        run = await engine.start(acting)
        return await run.wait()


async def go_on(folder: Path, tool: Tool) -> Any:
    """Return the report, or what a person has to say first."""
    async with opened(folder, model="offline", tools=[tool]) as engine:
        (info,) = await engine.runs()
        run = await engine.resume(info.id, acting)
        status = await run.settled()
        asks = "".join(f", asks: {each.text}" for each in run.questions)
        return run.output or f"{status} in {run.state}{asks}"


# --- halt -----------------------------------------------------------------------------------------


async def halt(folder: Path) -> None:
    """Halt the run in the folder, from wherever."""
    async with opened(folder, model="offline") as engine:
        (info,) = await engine.runs()
        run = await engine.get(info.id)
        await run.halt()
        await run.settled()
