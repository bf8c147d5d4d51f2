"""What a run of a workflow in Python is pinned to: what its functions do, as far as that can be told."""

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import midstream
from midstream import Workflow, stop

MODULE = """import midstream
import beside

flow = midstream.Workflow("shout")
LIMIT = 3


def helper(text):
    return text.upper()


def ending(sign, *, times=1):
    def end(run):
        return midstream.stop(helper(run.input)[:LIMIT] + sign * times + beside.WORD)

    return end


@flow.start
def begin(run):
    return last


last = flow.state(ending("!"))
"""


class Sign(Enum):
    WOW = "!"
    HM = "?"


def loaded(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of that text, imported as any other is."""
    file = folder / "shouting.py"
    file.write_text(text, encoding="utf-8")
    beside = ModuleType("beside")
    vars(beside)["WORD"] = ""
    monkeypatch.setitem(sys.modules, "beside", beside)
    spec = importlib.util.spec_from_file_location("shouting", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shouting", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("text.upper()", "text.title()"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("times=1", "times=2"),
        ('ending("!")', 'ending("?")'),
        ("return last", "return last  # at once"),
    ],
)
def test_all_of_its_module_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    before = loaded(tmp_path, MODULE, monkeypatch).flow.digest
    assert loaded(tmp_path, MODULE, monkeypatch).flow.digest == before
    assert loaded(tmp_path, MODULE.replace(old, new), monkeypatch).flow.digest != before


def test_it_is_what_was_loaded_whatever_the_file_is_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow: Workflow = loaded(tmp_path, MODULE, monkeypatch).flow
    before = flow.digest, flow.graph()
    lines = MODULE.replace("return last", "return nowhere").splitlines(keepends=True)
    (tmp_path / "shouting.py").write_text("".join(lines[3:]), encoding="utf-8")

    flow.check()
    assert (flow.digest, flow.graph()) == before
    (tmp_path / "shouting.py").unlink()
    assert (flow.digest, flow.graph()) == before


def test_other_modules_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(tmp_path, MODULE, monkeypatch)
    before = module.flow.digest
    module.beside.WORD = "!"
    assert module.flow.digest == before


def made(value: Any, default: Any = None) -> Workflow:
    """Return a workflow of one function, which holds a value."""
    flow = Workflow("made")

    def begin(run: Any, other: Any = default) -> Any:
        return stop(value)

    flow.start(begin)
    return flow


def adding(count: int) -> Callable[[], int]:
    return lambda: count + 1


def other() -> int:
    return 0


def times(count: int) -> Callable[[Any], Any]:
    def around(function: Any) -> Any:
        @functools.wraps(function)
        def called(run: Any) -> Any:
            return [function(run) for _ in range(count)][-1]

        return called

    return around


def tried(count: int) -> Workflow:
    flow = Workflow("tried")

    @flow.start
    @times(count)
    def begin(run: Any) -> Any:
        return stop()

    return flow


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, 2),
        (1, True),
        pytest.param(10**5000, 10**5000 + 1, id="very long numbers"),
        ("a", b"a"),
        ((1, (2, "a")), (1, (2, "b"))),
        (frozenset("ab"), frozenset("abc")),
        (Sign.WOW, Sign.HM),
        (adding(1), adding(2)),
        (adding(1), other),
        ((other, 1), (other, 2)),
        ([], {}),
        (int, str),
    ],
)
def test_what_a_function_holds_counts_where_it_is_a_constant_or_a_function(
    one: Any, two: Any
) -> None:
    assert made(one).digest == made(one).digest
    assert made(one).digest != made(two).digest
    assert made(0, one).digest != made(0, two).digest


def test_what_a_decorator_holds_counts() -> None:
    assert tried(2).digest == tried(2).digest != tried(3).digest


def test_states_it_leads_to_count_by_their_name() -> None:
    def leading(first: bool) -> Workflow:
        flow = Workflow("leading")
        one, two = (flow.state(each) for each in (left, right))
        target = one if first else two
        flow.start(lambda run: target)
        return flow

    def left(run: Any) -> Any:
        return stop()

    def right(run: Any) -> Any:
        return stop()

    assert leading(True).digest == leading(True).digest != leading(False).digest


def test_of_all_else_only_the_type_counts() -> None:
    assert made([1]).digest == made([2, 3]).digest
    assert made(Path("a")).digest == made(Path("b")).digest
    ring: list[Any] = []

    def itself(run: Any) -> Any:
        return ring, itself

    flow = Workflow("ring")
    flow.start(itself)
    before = flow.digest
    ring.append(ring)
    assert flow.digest == before


def test_at_a_prompt_what_a_function_names_counts() -> None:
    def digest(helper: str, word: str = "a") -> str:
        names: dict[str, Any] = {"stop": stop}
        text = f"W = {word!r}\ndef helper(x):\n    return {helper}\n"
        exec(text + "def begin(run):\n    return stop([helper(W) for _ in run.data])\n", names)
        flow = Workflow("prompt")
        flow.start(names["begin"])
        return flow.digest

    assert digest("x") == digest("x")
    assert len({digest("x"), digest("x + 1"), digest("x", "b")}) == 3


def test_it_is_the_same_in_every_process() -> None:
    program = """
import midstream
names = {"stop": midstream.stop}
exec("def helper(x):\\n    return x in {'a', 'b', 'c'}", names)
exec("def begin(run):\\n    return stop(helper(1))", names)
KIND, HELD = frozenset("abcdef"), object()
def made(kind, held):
    flow = midstream.Workflow("x")
    flow.start(lambda run, other=(kind, held): stop([kind, held]))
    flow.state(names["begin"])
    return flow
print(made(KIND, HELD).digest)
"""
    digests = set()
    for seed in ("1", "2", "3"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        ended = subprocess.run(
            [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
        )
        digests.add(ended.stdout)
    assert len(digests) == 1


async def test_a_changed_helper_is_told_before_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = MODULE.replace("@flow.start", '@flow.start(question="Ready?")')
    asking = asking.replace("helper(run.input)", 'helper("abc")')
    flow = loaded(tmp_path, asking, monkeypatch).flow
    journal = tmp_path / "journal.db"
    async with midstream.open(tmp_path, model="offline", journal=journal) as engine:
        run = await engine.start(flow)
        await run.settled()

    flow = loaded(tmp_path, asking.replace("text.upper()", "text.title()"), monkeypatch).flow
    async with midstream.open(tmp_path, model="offline", journal=journal) as engine:
        with pytest.raises(midstream.DefinitionDiffers, match="the module they stand in, changed"):
            await engine.resume(run.id, flow)
        again = await engine.resume(run.id, flow, choice="new")
        await again.say("yes")
        assert await again.wait() == "Abc!"
