"""Each program of `docs/library.md` with a journal on the disk and a model at the end of a connection.

As it stands on the page it needs neither: it is run so by `tests/house`. Here the same script is what a
server replies, and a gate holds the stream of that server.
"""

import asyncio
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples_kit import surround
from house_kit import ROOT
from support.openai_server import Call, Gate, OpenAIServer, Reply
from test_readme_and_docs import blocks

import midstream
from midstream.api.engine import Begun
from midstream.core.inputs import RequestedCall
from midstream.core.notices import Envelope
from midstream.testing import Scripted, ScriptedModel

PROGRAMS = [each for each in blocks(ROOT / "docs" / "library.md", "python") if "open(" in each]


class Real:
    """What `midstream.open` becomes: the script is put on the server, the journal into the folder."""

    def __init__(self, folder: Path, models: OpenAIServer) -> None:
        self._folder = folder
        self._models = models
        self._open = midstream.open
        self._held: list[tuple[str, Any, Gate]] = []
        self._heard = ""
        self._passing: list[asyncio.Task[None]] = []
        self.scripted = 0
        self.opened: list[midstream.Engine] = []

    def open(
        self, *arguments: Any, model: Any, journal: Any = None, **settings: Any
    ) -> Begun[midstream.Engine]:
        """Open an engine as `midstream.open` does."""
        if isinstance(model, ScriptedModel):
            for line in model._script:
                self._models.add(self._reply(line))
                self.scripted += 1
            model = "openai:gpt-4o-mini"
        if journal == ":memory:":
            journal = self._folder / "journal.db"

        async def begin() -> midstream.Engine:
            engine = await self._open(*arguments, model=model, journal=journal, **settings)
            engine.local.listen(self._hear)
            self.opened.append(engine)
            return engine

        return Begun(begin, lambda engine, _: engine.close())

    def _reply(self, line: Any) -> Reply:
        """Return a line of a script as the server says it."""
        match line:
            case str():
                return Reply(text=line)
            case RequestedCall():
                return self._reply(Scripted(calls=(line,)))
            case Scripted(error=None, thinking=""):
                calls = tuple(
                    Call(name=each.name, arguments=msgspec.to_builtins(each.arguments))
                    for each in line.calls
                )
                if line.gate is None:
                    return Reply(chunks=line.pieces, calls=calls)
                after = len(line.pieces) if line.gate_after is None else line.gate_after
                gate = Gate()
                self._held.append(("".join(line.pieces[:after]), line.gate, gate))
                return Reply(chunks=line.pieces, calls=calls, gate=gate, gate_after=after)
        raise AssertionError(f"no server says {line}")

    def _hear(self, envelope: Envelope) -> None:
        """Let a gate of the script be reached once what comes before it has been heard."""
        if isinstance(envelope.event, midstream.TextDelta):
            self._heard += envelope.event.text
            for held in [each for each in self._held if self._heard.endswith(each[0])]:
                self._held.remove(held)
                self._passing.append(asyncio.create_task(self._pass(*held[1:])))

    async def _pass(self, gate: Any, held: Gate) -> None:
        await gate.passed()
        held.open()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.chdir(tmp_path)
    with OpenAIServer() as server:
        surround(monkeypatch, tmp_path, server)
        yield server


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_does_the_same_for_real(
    program: str, tmp_path: Path, models: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Real(tmp_path, models)
    monkeypatch.setattr(midstream, "open", real.open, raising=False)
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")

    runpy.run_path(str(file), run_name="__main__")

    assert real.opened
    assert all(engine.local.store.is_lasting for engine in real.opened)
    assert len(models.requests) == real.scripted


def test_most_programs_of_the_page_ask_a_model() -> None:
    assert sum("ScriptedModel(" in program for program in PROGRAMS) >= 4
