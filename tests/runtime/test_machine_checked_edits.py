"""Edits that are checked: real tools and a machine whose process dies at each place where it journals."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest
from deadline import DEADLINE_S
from machine_kit import PLAIN, replayed
from test_machine_call_order import Mortal, accompany

from midstream.core.background import TERMINAL
from midstream.core.events import QuestionAsked, ToolEnded, ToolReturned
from midstream.core.notices import Envelope
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import (
    ModelReply,
    ModelRequest,
    ReplyListener,
    ToolContext,
    ToolOutcome,
)
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import call, define, fake_world
from midstream.tools import file_tools
from midstream.tools.base import Planned, Tool
from midstream.tools.diagnostics import Diagnostics
from midstream.tools.manager import ToolManager


def edit(path: str, old: str, new: str) -> object:
    return call("edit_file", path=path, edits=[{"old_text": old, "new_text": new}])


BATCH = (
    edit("a.py", "one", "one, bad"),
    call("read_files", paths=["a.py"]),
    call("write_file", path="b.py", content="bad, too\n"),
    edit("a.py", "two", "three"),
    call("read_files", paths=["b.py"]),
)


class Model:
    """A model that makes the batch, and is done when it has the results."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        is_made = any(message.results for message in request.messages)
        return ModelReply(text="Done." if is_made else "", calls=() if is_made else BATCH)  # type: ignore[arg-type]


class Lived(NamedTuple):
    """What is left in the end: the facts, the files, and which commands checked them."""

    facts: list[Envelope]
    files: tuple[str, str]
    ran: list[str]


async def lived(folder: Path, journal: Mortal) -> Lived:
    """Return what comes of the batch in a fresh workspace, however often its process dies."""
    (folder / "a.py").write_text("one\ntwo\n", encoding="utf-8")
    ran: list[str] = []

    def lint(arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
        ran.append(str(arguments["command"]))
        found = [
            f"{name}:{number}:1: {line}"
            for name in ran[-1].split()[1:]
            for number, line in enumerate((folder / name).read_text().splitlines(), 1)
            if "bad" in line
        ]
        return ToolOutcome(outcome="completed", text="\n".join(("Exit code: 0\n", *found)))

    def plan(arguments: dict[str, Json], context: ToolContext) -> Planned:
        return Planned(requests=(read_command(str(arguments["command"])),))

    schema: dict[str, Json] = {"type": "object"}
    spec = ToolSpec(name=TERMINAL, description="", parameters=schema, effect="once", reviewed=True)
    tools = ToolManager(
        built_in=(Tool(spec=spec, function=lint, plan=plan), *file_tools.TOOLS),
        policy=lambda: Policy(mode="auto", sandbox="full"),
        diagnostics=Diagnostics({"*.py": ["lint {files}"]}),
    )
    world = fake_world(Model(), tools=tools, journal=journal, blobs=MemoryStore(), workspace=folder)
    definition = define(PLAIN, tools=tools)
    async with asyncio.timeout(DEADLINE_S):
        is_over = False
        while not is_over:
            machine = WorkflowStateMachine(definition, world, id="r")
            if kept := await journal.read("r"):
                await machine.resume(replayed("r", kept), was_cut=True)
            else:
                await machine.start("tidy")
            await accompany(machine, journal)
            is_over = machine.run.is_over
    files = ((folder / "a.py").read_text(), (folder / "b.py").read_text())
    return Lived(await journal.read("r"), files, ran)


def results(left: Lived) -> list[str]:
    return [each.event.result for each in left.facts if isinstance(each.event, ToolReturned)]


async def test_a_batch_is_looked_at_before_its_changes_and_after_the_last(tmp_path: Path) -> None:
    left = await lived(tmp_path, Mortal())

    assert left.files == ("one, bad\nthree\n", "bad, too\n")
    assert left.ran == ["lint ./a.py", "lint ./a.py ./b.py"]
    assert results(left)[3] == (
        "Edited a.py: replaced at line 2.\n\n[2 new problems: lint]\na.py:1: one, bad\nb.py:1: bad, too"
    )
    assert not any("problem" in text for text in results(left)[:3])


@pytest.mark.parametrize("is_kept", [True, False])
async def test_wherever_the_process_dies_each_change_is_made_once_and_told_truly(
    tmp_path: Path, is_kept: bool
) -> None:
    whole = Mortal()
    (tmp_path / "whole").mkdir()
    await lived(tmp_path / "whole", whole)

    for at in range(1, whole.appends + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        left = await lived(folder, Mortal(at, is_kept=is_kept))
        facts = [each.event for each in left.facts]
        ended = {fact.call_id for fact in facts if isinstance(fact, ToolEnded)}
        asked = [fact.call_id for fact in facts if isinstance(fact, QuestionAsked)]
        returned = [fact.call_id for fact in facts if isinstance(fact, ToolReturned)]

        assert left.files[0] in ("one, bad\nthree\n", "one\nthree\n", "one, bad\ntwo\n")
        if not asked:
            assert left.files == ("one, bad\nthree\n", "bad, too\n")
        assert not ended.intersection(asked), "what was journaled as done is asked of nobody"
        assert sorted(returned) == [f"call_{number}" for number in range(1, 6)]
        assert replayed("r", left.facts).status == "finished"
