"""The notebook `talk_to_a_run.ipynb`: its cells, run in a loop that goes on between them as in a kernel."""

import ast
import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from examples_kit import EXAMPLES, surround
from support.openai_server import Gate, OpenAIServer, Reply

CELLS = {
    cell["id"]: cell
    for cell in json.loads((EXAMPLES / "talk_to_a_run.ipynb").read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
}
AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.chdir(tmp_path)
    with OpenAIServer() as server:
        surround(monkeypatch, tmp_path, server)
        yield server


class Kernel:
    """What a kernel does with cells: one after the other, `await` and all, in one namespace."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    async def run(self, id: str) -> Any:
        """Run a cell; return the value of its last line, where that is an expression."""
        body = ast.parse("".join(CELLS[id]["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        await self._done(compile(ast.Module(body, []), id, "exec", AWAITS))
        if isinstance(last, ast.Expr):
            return await self._done(compile(ast.Expression(last.value), id, "eval", AWAITS))
        return None

    async def _done(self, code: Any) -> Any:
        value = eval(code, self.names)
        return await value if inspect.iscoroutine(value) else value


async def test_the_cells_start_interrupt_copy_and_resume_a_run(
    models: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    poem = Gate()
    models.add(Reply(text="A frog leaps in"), Reply(text="Snow, and snow,", gate=poem))
    models.add(Reply(text="Snow on my hat"), Reply(text="Fog, and no shore"))
    kernel, shown = Kernel(), {}

    async with asyncio.timeout(DEADLINE_S):
        for id in CELLS:
            shown[id] = await kernel.run(id), capsys.readouterr().out
            if id == "long":
                await poem.reached

    assert shown["start"] == (None, "A frog leaps in\n")
    assert shown["words"] == (None, "Snow on my hat\n")
    facts, _ = shown["events"]
    assert [number for number, _ in facts] == [*range(1, len(facts) + 1)]
    assert "interrupted" in [kind for _, kind in facts]
    assert shown["copy"] == (None, "Fog, and no shore\n")
    assert "snow" not in str(models.requests[-1]["messages"])
    assert shown["resume"] == (None, "Snow on my hat\n")


def test_no_output_of_any_machine_is_kept() -> None:
    assert [id for id, cell in CELLS.items() if cell["outputs"] or cell["execution_count"]] == []
