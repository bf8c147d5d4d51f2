import asyncio
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from deadline import DEADLINE_S
from msgspec import structs
from toolbench import Bench, a_tool, patient

from midstream.language.errors import UserMistake
from midstream.language.names import Effect, Json
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.system.offloop import in_thread
from midstream.tools import manager as manager_module
from midstream.tools.base import Tool, check_stop
from midstream.tools.code_tools import LIBRARIES
from midstream.tools.manager import ToolManager
from midstream.tools.tool_text import MAX_CHARS
from midstream.tools.user_tools import as_tool, tool

__all__ = ["patient"]


def bench_with(workspace: Path, *tools: Tool) -> Bench:
    return Bench(workspace, ToolManager(built_in=tools))


async def test_a_plain_function_runs_in_a_thread_and_its_text_is_the_result(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    def work(arguments: dict[str, Json], context: ToolContext) -> str:
        threads.append(threading.current_thread())
        return f"{arguments['word']} for {context.agent}"

    ended = await bench_with(tmp_path, a_tool(work)).call("thing", word="hello")

    assert ended == ToolOutcome(outcome="completed", text="hello for coder")
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


async def test_an_async_function_runs_on_the_loop(tmp_path: Path) -> None:
    async def work(arguments: dict[str, Json], context: ToolContext) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert await bench_with(tmp_path, a_tool(work)).text("thing") == threading.main_thread().name


async def test_an_unknown_tool_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    assert "'read_files'" in await Bench(tmp_path).failure("read_file")


async def test_arguments_that_do_not_fit_are_never_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def work(arguments: dict[str, Json], context: ToolContext) -> str:
        ran.append("yes")
        return ""

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bench = bench_with(tmp_path, a_tool(work, parameters=schema))

    assert "at $.n: 'one' is not of type 'integer'" in await bench.failure("thing", n="one")
    assert "'n' is a required property" in await bench.failure("thing")
    assert ran == []


def raise_value_error(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
    raise ValueError("no such colour")


def raise_user_mistake(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
    raise UserMistake("The port is closed.", hint="Open it.")


def raise_exit(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
    sys.exit("bye")


def raise_stop_iteration(arguments: dict[str, Json], context: ToolContext) -> str:
    return str(next(iter(())))


class Mute(Exception):
    def __str__(self) -> str:
        return str(1 // 0)


async def raise_base_on_the_loop(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
    raise BaseException("skipped")


def raise_mute(arguments: dict[str, Json], context: ToolContext) -> str:
    raise Mute


def raise_os_error(arguments: dict[str, Json], context: ToolContext) -> str:
    return Path("/nowhere/at/all").read_text()


async def raise_exit_on_the_loop(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
    sys.exit("bye")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raise_value_error, "thing failed with ValueError: no such colour (test_tool_manager.py, "),
        (raise_user_mistake, "The port is closed. Open it."),
        (raise_exit, "SystemExit: bye"),
        (raise_stop_iteration, "StopIteration"),
        (raise_os_error, "No such file or directory: /nowhere/at/all"),
        (raise_exit_on_the_loop, "SystemExit: bye"),
        (raise_base_on_the_loop, "thing failed with BaseException: skipped ("),
        (raise_mute, "thing failed with Mute: its message cannot be read (ZeroDivisionError) ("),
    ],
)
async def test_whatever_a_tool_raises_becomes_words_for_the_model(
    tmp_path: Path, function: object, words: str
) -> None:
    tool = a_tool(function)  # type: ignore[arg-type]

    assert words in await bench_with(tmp_path, tool).failure("thing")


@pytest.mark.parametrize(
    ("error", "words"),
    [(asyncio.CancelledError, "thing cancelled itself"), (TimeoutError, "thing took too long")],
)
@pytest.mark.parametrize(
    ("effect", "outcome", "more"),
    [("read", "failed", "."), ("once", "unknown", ": it may have done part of its work, ")],
)
async def test_a_tool_that_gives_up_may_have_done_part_of_it(
    tmp_path: Path,
    error: type[BaseException],
    words: str,
    effect: Effect,
    outcome: str,
    more: str,
) -> None:
    async def give_up(arguments: dict[str, Json], context: ToolContext) -> NoReturn:
        raise error

    ended = await bench_with(tmp_path, a_tool(give_up, effect=effect)).call("thing")

    assert (ended.outcome, ended.text.startswith(f"{words}{more}")) == (outcome, True), ended.text


@pytest.mark.parametrize(
    ("effect", "outcome", "words"),
    [("read", "failed", "Timed out after 0.05 s."), ("once", "unknown", "verify before repeating")],
)
async def test_a_call_out_of_time_is_left_behind(
    tmp_path: Path, effect: Effect, outcome: str, words: str
) -> None:
    let_go = threading.Event()

    def hang(arguments: dict[str, Json], context: ToolContext) -> str:
        let_go.wait(DEADLINE_S)
        return "late"

    bench = bench_with(tmp_path, a_tool(hang, effect=effect, timeout_s=0.05))
    ended = await bench.call("thing")
    let_go.set()

    assert ended.outcome == outcome
    assert words in ended.text


async def test_long_results_keep_head_and_tail_and_say_what_is_missing(tmp_path: Path) -> None:
    def long(arguments: dict[str, Json], context: ToolContext) -> str:
        return "head" + "x" * 2 * MAX_CHARS + "tail"

    text = await bench_with(tmp_path, a_tool(long)).text("thing")

    assert text.startswith("head")
    assert text.endswith("tail")
    assert f"[... {MAX_CHARS + 8:,} characters left out ...]" in text


async def test_a_result_has_no_nul_and_no_lone_surrogate(tmp_path: Path) -> None:
    def odd(arguments: dict[str, Json], context: ToolContext) -> str:
        context.progress("\0\ud800")
        return "a\0b\ud800c"

    bench = bench_with(tmp_path, a_tool(odd))

    assert await bench.text("thing") == "ab\ufffdc"
    assert bench.told == ["\ufffd"]


async def test_a_tool_cannot_change_the_recorded_arguments(tmp_path: Path) -> None:
    def greedy(arguments: dict[str, Json], context: ToolContext) -> str:
        arguments["items"].clear()
        return "taken"

    items = [1, 2]
    await bench_with(tmp_path, a_tool(greedy)).call("thing", items=items)

    assert items == [1, 2]


@pytest.mark.parametrize(("effect"), ["read", "idempotent"])
async def test_told_to_stop_a_harmless_tool_ends_at_once(
    tmp_path: Path, effect: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager_module, "SOFT_STOP_S", 1_000.0)
    let_go = threading.Event()

    def hang(arguments: dict[str, Json], context: ToolContext) -> str:
        context.progress("begun")
        let_go.wait(DEADLINE_S)
        return ""

    bench = bench_with(tmp_path, a_tool(hang, effect=effect))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("thing"))
        await bench.until_told("begun")
        bench.stop.set()
    let_go.set()

    assert call.result().outcome == "stopped"


@pytest.mark.parametrize(
    ("effect", "outcome", "words"),
    [
        ("idempotent", "stopped", " It may have been done; doing it again does no harm."),
        ("once", "unknown", ""),
    ],
)
async def test_of_what_nothing_can_stop_the_model_is_told_that_it_may_go_on(
    tmp_path: Path,
    effect: Effect,
    outcome: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manager_module, "SOFT_STOP_S", 0.05)
    begun, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool(effect=effect, needs_approval=False)
    def hang(again: bool = False) -> str:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait(DEADLINE_S)
        return ""

    bench = bench_with(tmp_path, as_tool(hang))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("hang"))
        await begun.wait()
        bench.stop.set()
    stopped = call.result()

    brief = structs.replace(as_tool(hang).spec, timeout_s=0.05)
    late = await bench_with(tmp_path, structs.replace(as_tool(hang), spec=brief)).call("hang")
    let_go.set()

    assert stopped.outcome == outcome
    told = "It was told to stop and may still be at work, for nothing can stop it"
    assert stopped.text == f"{told}{words and '.'}{words or ': verify before repeating it.'}"
    assert "Timed out after 0.05 s, and may still be at work, for nothing can stop it" in late.text


async def test_told_to_stop_a_once_tool_may_finish_and_say_so(tmp_path: Path) -> None:
    async def careful(arguments: dict[str, Json], context: ToolContext) -> str:
        context.progress("begun")
        await context.stop.wait()
        return "rolled back"

    bench = bench_with(tmp_path, a_tool(careful, effect="once"))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("thing"))
        await bench.until_told("begun")
        bench.stop.set()

    assert call.result() == ToolOutcome(outcome="completed", text="rolled back")


async def test_a_stop_counts_at_once_for_who_is_about_to_write(tmp_path: Path) -> None:
    async def run(arguments: dict[str, Json], context: ToolContext) -> str:
        bench.stop.set()
        check_stop(context)  # the loop has not turned since
        return "It wrote."

    bench = bench_with(tmp_path, a_tool(run, effect="once"))
    ended = await bench.call("thing")
    assert ended.outcome == "stopped"


async def test_a_once_tool_that_looks_at_stop_in_its_thread_changes_nothing(tmp_path: Path) -> None:
    contexts: list[ToolContext] = []
    told = threading.Event()

    def careful(arguments: dict[str, Json], context: ToolContext) -> str:
        contexts.append(context)
        context.progress("begun")
        told.wait(DEADLINE_S)
        check_stop(context)
        return "changed"

    bench = bench_with(tmp_path, a_tool(careful, effect="once"))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("thing"))
        await bench.until_told("begun")
        bench.stop.set()
        await contexts[0].stop.wait()
        told.set()

    assert call.result().outcome == "stopped"
    assert call.result().text == "Stopped before it changed anything."


async def test_a_once_tool_that_does_not_listen_has_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager_module, "SOFT_STOP_S", 0.05)

    async def deaf(arguments: dict[str, Json], context: ToolContext) -> str:
        context.progress("begun")
        await asyncio.Event().wait()
        return ""

    bench = bench_with(tmp_path, a_tool(deaf, effect="once"))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("thing"))
        await bench.until_told("begun")
        bench.stop.set()

    assert call.result().outcome == "unknown"
    assert "verify before repeating" in call.result().text


async def test_a_call_stopped_before_it_began_is_not_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stop.set()

    ended = await bench.call("write_file", path="a", content="b")

    assert ended.outcome == "not_run"
    assert not (tmp_path / "a").exists()


async def test_cancelling_goes_through_and_a_forgotten_thread_is_silent(tmp_path: Path) -> None:
    let_go = threading.Event()
    ended = threading.Event()
    saw_stop: list[bool] = []

    def hang(arguments: dict[str, Json], context: ToolContext) -> str:
        context.progress("begun")
        let_go.wait(DEADLINE_S)
        context.progress("still here")
        saw_stop.append(context.stop.is_set())
        ended.set()
        return ""

    bench = bench_with(tmp_path, a_tool(hang, effect="once"))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(bench.call("thing"))
        await bench.until_told("begun")
        call.cancel()
        await asyncio.wait({call})
        let_go.set()
        await in_thread(partial(ended.wait, DEADLINE_S))

    assert call.cancelled()
    assert saw_stop == [True]
    assert bench.told == ["begun"]


def test_built_in_tools_keep_their_names() -> None:
    def mine(arguments: dict[str, Json], context: ToolContext) -> str:
        return "mine"

    specs = ToolManager([a_tool(mine, name="get_time"), a_tool(mine)]).specs()

    assert specs["get_time"].description != "A thing."
    assert specs["thing"].description == "A thing."


def test_every_built_in_tool_says_what_it_may_do() -> None:
    specs = ToolManager().specs()

    assert {
        name: (spec.effect, spec.needs_approval or spec.reviewed) for name, spec in specs.items()
    } == {
        "calculate": ("read", False),
        "delegate": ("read", False),
        "edit_file": ("once", True),
        "exact_search": ("read", False),
        "execute_terminal": ("once", True),
        "explain_codebase": ("read", False),
        "find_files": ("read", False),
        "get_time": ("read", False),
        "todo": ("read", False),
        "tasks": ("read", False),
        "list_directory": ("read", False),
        "measure_code": ("read", False),
        "read_files": ("read", False),
        "read_image": ("read", False),
        "request_users_input": ("read", False),
        "propose_plan": ("read", False),
        "run_workflow": ("read", True),
        "web_fetch": ("read", True),
        "write_file": ("idempotent", True),
    }
    assert all(spec.parameters["type"] == "object" for spec in specs.values())


async def test_what_is_a_question_or_a_branch_is_never_run_here(tmp_path: Path) -> None:
    assert "not asked" in await Bench(tmp_path).failure("request_users_input", question="Why?")
    assert "not begun" in await Bench(tmp_path).failure("delegate", role="coder", task="Mend it.")


def test_importing_the_manager_imports_no_heavy_library() -> None:
    heavy = {"jsonschema", "pathspec", "pydantic_core", "pydantic_ai", *LIBRARIES}
    code = f"import sys, midstream.tools.manager; print(sorted({heavy} & set(sys.modules)))"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"
