"""load_script: a script is imported off the loop, and what goes wrong is said with its line."""

import asyncio
import os
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest
from deadline import DEADLINE_S

from midstream.core.events import RunStarted
from midstream.core.fold.apply import apply
from midstream.core.run import Run
from midstream.language.errors import AuthorMistake
from midstream.runtime.handlers import ScriptHandlers, load_script
from midstream.testing.fakes import Gate, define


async def load(folder: Path, source: str, timeout_s: float = DEADLINE_S) -> ScriptHandlers:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8", errors="surrogateescape")
    async with asyncio.timeout(DEADLINE_S):
        return await load_script(path, timeout_s=timeout_s)


def begun() -> Run:
    definition = define({"states": [{"name": "start"}]})
    return apply(Run(id="r"), RunStarted(workflow="w", definition=definition))


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ("def h(run):\n    return (\n", "was never closed", 2),
        ("import no_such_module_at_all\n", "ModuleNotFoundError", 1),
        ("x = 1\n\nx / 0\n", "ZeroDivisionError: division by zero", 3),
        ("import sys\nsys.exit(3)\n", "SystemExit", 2),
        ("raise StopIteration\n", "StopIteration", 1),
        ("x = '\0'\n", "null bytes", 1),
    ],
)
async def test_a_script_that_fails_to_import_is_named_with_its_line(
    tmp_path: Path, source: str, words: str, line: int
) -> None:
    with pytest.raises(AuthorMistake) as caught:
        await load(tmp_path, source)

    assert words in caught.value.what
    assert caught.value.what.startswith(f"{tmp_path / 'script.py'}:{line}: ")
    assert caught.value.hint


class Standstill(ModuleType):
    """A module whose import stands still until it is released."""

    def __init__(self) -> None:
        super().__init__("standstill")
        self.gate = Gate()
        self.release = threading.Event()
        self._loop = asyncio.get_running_loop()

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self.gate.passed()))
        self.release.wait()


@pytest.fixture
async def standstill(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Standstill]:
    module = Standstill()
    monkeypatch.setitem(sys.modules, "standstill", module)
    yield module
    module.release.set()
    module.gate.open()
    await asyncio.sleep(0)


async def test_an_import_without_an_end_is_left_behind(
    tmp_path: Path, standstill: Standstill
) -> None:
    with pytest.raises(AuthorMistake, match=r"has not ended after 0\.05 s"):
        await load(tmp_path, "import standstill\nstandstill.wait()\n", timeout_s=0.05)


async def test_importing_does_not_hold_up_the_loop(tmp_path: Path, standstill: Standstill) -> None:
    source = "import standstill\nstandstill.wait()\ndef h(run): pass\n"
    loading = asyncio.ensure_future(load(tmp_path, source))
    await standstill.gate.reached()
    assert not loading.done()
    standstill.release.set()
    handlers = await loading

    assert (await handlers.call("h", begun(), lambda text: None)).changed == {}
    assert not any(name.startswith("midstream_script_") for name in sys.modules)


async def test_a_missing_script_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(AuthorMistake, match="FileNotFoundError"):
        await load_script(tmp_path / "script.py")


async def test_a_script_may_print_and_define_what_it_likes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = await load(
        tmp_path,
        """
        from dataclasses import dataclass
        print("imported")

        @dataclass
        class Point:
            x: int = 0

        def h(run):
            run.common_data["x"] = Point(3).x
        """,
    )
    result = await handlers.call("h", begun(), lambda text: None)

    assert result.changed == {"x": 3}
    assert "imported" in capsys.readouterr().out


async def test_what_was_read_is_what_runs_and_no_cache_is_left(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("def h(run):\n    run.log('changed since')\n")
    handlers = await load_script(path, b"def h(run):\n    run.log('as checked')\n")
    lines: list[str] = []
    await handlers.call("h", begun(), lines.append)

    assert lines == ["as checked"]
    assert os.listdir(tmp_path) == ["script.py"]


async def test_two_scripts_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "w").mkdir(parents=True)
    one = await load(tmp_path / "a" / "w", "WORD = 'a'\ndef h(run): run.log(WORD)\n")
    two = await load(tmp_path / "b" / "w", "WORD = 'b'\ndef h(run): run.log(WORD)\n")
    lines: list[str] = []
    for handlers in (one, two):
        await handlers.call("h", begun(), lines.append)

    assert lines == ["a", "b"]


async def test_an_error_in_a_handler_names_the_scripts_line(tmp_path: Path) -> None:
    handlers = await load(tmp_path, "import json\n\ndef h(run):\n    json.loads('{')\n")
    with pytest.raises(AuthorMistake) as caught:
        await handlers.call("h", begun(), lambda text: None)

    assert f"({tmp_path / 'script.py'}:4)" in caught.value.what
