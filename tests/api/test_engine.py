"""Opening an engine, and what it starts, finds, resumes and forks."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from api_kit import TALK, Place, here, until, write
from deadline import wait_until

import midstream
from midstream.app import assembly
from midstream.language.errors import WorldTrouble
from midstream.testing import Gate, JumpingClock, ScriptedModel, asks, call, calls, says

__all__ = ["here"]


async def test_a_built_in_workflow_is_started_by_its_name(here: Place) -> None:
    engine = await here.engine()
    assert "coder_reviewer" in await engine.workflows()
    with pytest.raises(midstream.UserMistake, match="coder_reviewer"):
        await engine.start("coder_reviever")
    run = await engine.start("workflow:coder_reviewer", "mend it")
    assert run.run.input == "mend it"
    await run.stop()


async def test_a_chat_is_a_run_with_a_role(here: Place) -> None:
    engine = await here.engine("Hello, Ada.", "Fine.")
    assert "dude" in await engine.roles()
    chat = await engine.start("role:dude", "I am Ada.")
    assert await chat.settled() == "waiting"
    await chat.say("How are you?")
    await chat.settled()

    words = [message.text for message in chat.run.contexts["chat"]]
    assert words == ["I am Ada.", "Hello, Ada.", "How are you?", "Fine."]
    with pytest.raises(midstream.UserMistake, match=r"no role 'dud'.*dude"):
        await engine.start("role:dud")


async def test_a_workflow_is_a_file_with_a_script_beside_it(here: Place) -> None:
    states = [
        {"name": "start", "post_handler": "count"},
        {"name": "stop", "input": "common_data.n"},
    ]
    write(here.workspace, "flows/count.json", json.dumps({"workflow_name": "c", "states": states}))
    script = "def count(run):\n    run.common_data['n'] = len(run.input)\n"
    write(here.workspace, "flows/count/script.py", script)
    engine = await here.engine()

    assert await (await engine.start("flows/count.json", "four")).wait() == 4
    assert await (await engine.start(here.workspace / "flows/count.json", "")).wait() == 0
    with pytest.raises(midstream.UserMistake, match="no file"):
        await engine.start("flows/cuont.json")


async def test_handlers_of_a_program_need_no_file(here: Place) -> None:

    async def shout(run: Any) -> str:
        run.common_data["said"] = run.input.upper()
        return "stop"

    flow = {
        "workflow_name": "shout",
        "states": [
            {"name": "start", "transition_handler": "shout"},
            {"name": "stop", "input": "common_data.said"},
        ],
    }
    engine = await here.engine()
    run = await engine.start(flow, "hey", handlers={"shout": shout})
    assert await run.wait() == "HEY"

    with pytest.raises(midstream.AuthorMistake, match="shout"):
        await engine.start(flow, "hey", handlers={"shuot": shout})
    with pytest.raises(midstream.AuthorMistake, match="needs a script"):
        await engine.start(flow, "hey")


async def test_a_workflow_with_problems_lists_all_of_them_and_nothing_begins(here: Place) -> None:
    engine = await here.engine()
    flow: dict[str, Any] = {
        "workflow_name": "x",
        "states": [{"name": "start", "agent": "poet", "next": "lok"}],
    }

    with pytest.raises(midstream.AuthorMistake) as raised:
        await engine.start(flow)

    assert "poet" in str(raised.value)
    assert "lok" in str(raised.value)
    assert await engine.runs() == []


async def test_a_run_outlives_its_engine_and_goes_on_in_another(here: Place) -> None:
    first = await here.engine(asks("What is your name?"))
    run = await first.start(TALK, "greet")
    await run.settled()
    await first.close()

    second = await here.engine("Welcome, Ada.")
    found = await second.get(run.id)
    assert (found.status, found.is_here) == ("waiting", False)
    again = await second.resume(run.id)
    await again.say("Ada")
    assert await again.wait() == "Welcome, Ada."
    assert again.is_here


async def test_words_said_while_nobody_runs_it_are_heard_when_it_goes_on(here: Place) -> None:
    first = await here.engine(asks("What is your name?"))
    run = await first.start(TALK, "greet")
    await run.settled()
    await first.close()
    second = await here.engine("Welcome, Ada.")

    receipt = await (await second.get(run.id)).say("Ada")
    assert receipt.handling == "queue"

    assert await (await second.resume(run.id)).wait() == "Welcome, Ada."


async def test_a_run_that_is_taken_goes_on_here_unless_another_process_runs_it_or_it_has_ended(
    here: Place,
) -> None:
    first = await here.engine(asks("What is your name?"))
    run = await first.start(TALK, "greet")
    await run.settled()
    second = await here.engine("Welcome, Ada.")
    assert not (await second.take(run.id)).is_here
    await first.close()

    taken = await second.take(run.id)
    assert taken.is_here
    await taken.say("Ada", source="page")
    assert await taken.wait() == "Welcome, Ada."

    facts = await second.facts(run.id)
    said = [f.event for f in facts if isinstance(f.event, midstream.InputReceived)]
    assert said[-1].source == "page"
    third = await here.engine()
    assert (await third.take(run.id)).output == "Welcome, Ada."


async def test_the_same_key_gives_the_run_that_was_begun_with_it_also_after_its_engine_is_gone(
    here: Place,
) -> None:
    first = await here.engine(asks("What is your name?"))
    runs = await asyncio.gather(*(first.start(TALK, "greet", key="k") for _ in range(5)))
    other = await first.start(TALK, "greet", key="another", budget={"usd": 0})
    assert {run.id for run in runs} != {other.id}
    assert len({run.id for run in runs}) == 1
    await runs[0].settled()
    await first.close()

    second = await here.engine("Welcome, Ada.")
    again = await second.start(TALK, "something else", key="k")
    assert (again.id, again.is_here, again.run.input) == (runs[0].id, True, "greet")
    await again.say("Ada")
    assert await again.wait() == "Welcome, Ada."
    assert (await second.start(TALK, "greet", key="k")).output == "Welcome, Ada."


async def test_two_engines_that_begin_with_one_key_at_once_have_one_run(here: Place) -> None:
    engines = [await here.engine(asks("Name?")) for _ in range(3)]
    begun = await asyncio.gather(*(each.start(TALK, "x", key="k") for each in engines))

    assert len({run.id for run in begun}) == 1
    assert sum(run.is_here for run in begun) == 1
    await begun[0].settled()
    facts = await engines[0].facts(begun[0].id)
    assert [type(f.event).__name__ for f in facts].count("RunStarted") == 1


async def test_a_chat_hears_its_first_line_once_per_key_and_whose_it_is(here: Place) -> None:
    engine = await here.engine("Hello, Ada.")
    for _ in range(2):
        chat = await engine.start("role:dude", "I am Ada.", key="k", source="page")
        await chat.settled()

    facts = [each.event for each in await engine.facts(chat.id)]
    heard = [(f.text, f.source) for f in facts if isinstance(f, midstream.InputReceived)]
    assert heard == [("I am Ada.", "page")]


async def test_facts_come_a_page_at_a_time(here: Place) -> None:
    engine = await here.engine("Done.")
    run = await engine.start(TALK, "x")
    await run.wait()
    every, found = await engine.facts(run.id), [*await engine.facts(run.id, 0, 2)]
    assert len(found) == 2
    while page := await engine.facts(run.id, found[-1].seq or 0, 2):
        found += page
    assert found == every


async def test_a_run_that_no_process_runs_is_stopped_and_nothing_of_it_begins(here: Place) -> None:
    first = await here.engine(asks("What is your name?"))
    run = await first.start(TALK, "greet")
    await run.settled()
    await first.close()
    second = await here.engine()

    left = await second.get(run.id)
    await left.stop("nobody needs it")

    assert left.status == "stopped"
    assert here.models[-1].requests == []


async def test_a_run_belongs_to_one_engine_at_a_time(here: Place) -> None:
    first, second = await here.engine(asks("Sure?")), await here.engine()
    run = await first.start(TALK)
    await run.settled()

    with pytest.raises(midstream.RunOwned, match="Another engine of this process runs") as refused:
        await second.resume(run.id)
    assert "close that engine" in refused.value.hint
    with pytest.raises(midstream.RunOwned, match="Another engine of this process runs"):
        await second.delete(run.id)

    await first.close()
    await second.resume(run.id)


async def test_runs_are_listed_newest_first_by_status_and_page(here: Place) -> None:
    engine = await here.engine("One.", "Two.", asks("Sure?"))
    for _ in range(2):
        await (await engine.start(TALK)).wait()
    waiting = await engine.start(TALK)
    await waiting.settled()

    ids = [each.id for each in await engine.runs()]
    assert ids[0] == waiting.id
    assert [each.id for each in await engine.runs(status="waiting")] == ids[:1]
    assert [each.id for each in await engine.runs(status="finished")] == ids[1:]
    page = await engine.runs(limit=2)
    assert [each.id for each in await engine.runs(limit=2, after=page[-1].id)] == ids[2:]
    assert [each.id for each in await engine.runs(limit=None)] == ids
    assert [each.id for each in await engine.runs(limit=None, after=ids[0])] == ids[1:]
    assert [each.id for each in await engine.runs(after=page[-1])] == ids[2:]
    (info,) = await engine.runs(limit=1)
    assert (info.is_here, info.is_running, info.workflow) == (True, True, "talk")
    assert await engine.runs(workflow="other") == []
    with pytest.raises(midstream.UserMistake, match="nosuchrun"):
        await engine.runs(after="nosuchrun")


async def test_a_block_binds_the_life_of_a_run(here: Place) -> None:
    engine = await here.engine(asks("Sure?"), asks("Sure?"))
    with contextlib.suppress(ZeroDivisionError):
        async with engine.start(TALK) as run:
            await run.settled()
            raise ZeroDivisionError
    assert run.status == "stopped"
    async with engine.start(TALK) as other:
        await other.settled()
    stopped = await until(other, lambda e: isinstance(e, midstream.RunStopped))
    assert stopped.reason == "its block was left"


@pytest.mark.parametrize(("trust", "is_there"), [(True, True), (False, False)])
async def test_a_program_says_whether_the_workspaces_own_files_count(
    here: Place, trust: bool, is_there: bool
) -> None:
    flow = {"workflow_name": "mine", "states": [{"name": "start"}, {"name": "stop"}]}
    write(here.workspace, ".midstream/workflows/mine.json", json.dumps(flow))
    with pytest.raises(midstream.NotTrusted, match=r"mine\.json"):
        await here.engine()

    engine = await here.engine(trust=trust)
    if is_there:
        assert await (await engine.start("mine")).wait() is None
    else:
        with pytest.raises(midstream.UserMistake):
            await engine.start("mine")


async def test_a_plain_function_is_a_tool_that_asks_first(here: Place) -> None:

    def add(left: int, right: int) -> str:
        """Add two numbers.

        Args:
            left: the one.
            right: the other.
        """
        return str(left + right)

    engine = await here.engine(call("add", left=2, right=3), "Five.", tools=[add])
    run = await engine.start(TALK, allowed=["add"])

    assert await run.wait() == "Five."
    returned = await until(run, lambda e: isinstance(e, midstream.ToolReturned))
    assert returned.result == "5"


async def test_a_tool_cannot_take_the_name_of_another(here: Place) -> None:
    def read_files() -> str:
        return ""

    with pytest.raises(midstream.UserMistake, match="read_files is taken"):
        await here.engine(tools=[read_files])


async def test_what_is_no_function_is_refused_as_a_tool(here: Place) -> None:
    with pytest.raises(midstream.AuthorMistake, match="not a value of the type str"):
        await here.engine(tools=["read_files"])


async def test_a_word_that_is_no_permission_mode_status_or_budget_is_refused(here: Place) -> None:
    unknown: Any = "everything"
    with pytest.raises(midstream.UserMistake, match="one of plan, ask, auto, full"):
        await here.engine(permissions=unknown)
    engine = await here.engine()
    with pytest.raises(midstream.UserMistake, match="There is no status 'everything'"):
        await engine.runs(status=unknown)
    with pytest.raises(midstream.UserMistake, match="The budget cannot be read"):
        await engine.start("role:dude", "x", budget=unknown)


async def test_plan_mode_refuses_what_changes_something(here: Place) -> None:
    wanted = call("write_file", path="x.txt", content="x")
    engine = await here.engine(wanted, "I may not.", permissions="plan")
    run = await engine.start("role:coder", "write it")
    await run.settled()

    assert not (here.workspace / "x.txt").exists()
    returned = await until(run, lambda e: isinstance(e, midstream.ToolReturned))
    assert returned.outcome in ("denied", "not_run")


async def test_no_tool_reads_a_journal_that_lies_in_the_workspace(here: Place) -> None:
    journal = here.workspace / "runs.db"
    script = (call("read_files", paths=["runs.db"]), "I could not.")
    async with midstream.open(
        here.workspace, model=ScriptedModel(*script), journal=journal
    ) as engine:
        run = await engine.start("role:coder", "read it")
        await run.settled()
        returned = await until(run, lambda e: isinstance(e, midstream.ToolReturned))
    assert "midstream's own" in returned.result


async def test_what_cannot_be_opened_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(midstream.UserMistake, match="no folder"):
        await midstream.open(tmp_path / "nowhere")
    with pytest.raises(midstream.UserMistake, match="MISTRAL_API_KEY"):
        await midstream.open(tmp_path, model="mistral:small", journal=":memory:")
    with pytest.raises(midstream.MidstreamError, match="no regular file"):
        await midstream.open(tmp_path, model="offline", journal=tmp_path)


async def test_a_clock_of_the_test_moves_a_deadline(here: Place) -> None:
    clock = JumpingClock()
    ask = {"question": "Sure?", "deadline_s": 3600, "on_timeout": "default", "default": "yes"}
    states = [
        {"name": "start", "ask": ask, "save_as": "common_data.a"},
        {"name": "stop", "input": "common_data.a"},
    ]
    engine = await here.engine(clock=clock)
    run = await engine.start({"workflow_name": "w", "states": states})
    await until(run, lambda e: isinstance(e, midstream.TimerSet))
    waiting = asyncio.create_task(run.wait())
    while not waiting.done():
        clock.jump(60)
        await asyncio.sleep(0)

    assert waiting.result() == "yes"


async def test_two_engines_in_one_process_keep_their_runs_apart(tmp_path: Path) -> None:
    places = [Place("here", tmp_path / name) for name in "ab"]
    engines = [await place.engine(f"I am {place.folder.name}.") for place in places]
    runs = [await engine.start(TALK) for engine in engines]

    assert [await run.wait() for run in runs] == ["I am a.", "I am b."]
    for engine, run in zip(engines, runs, strict=True):
        assert [each.id for each in await engine.runs()] == [run.id]
    for place in places:
        await place.close()


async def test_closing_lets_go_of_a_run_in_mid_word_and_may_be_done_twice(here: Place) -> None:
    gate = Gate()
    first = await here.engine(says("Once ", "more", gate=gate, after=1))
    run = await first.start(TALK, "tell")
    await gate.reached()
    await first.close()
    await first.close()

    second = await here.engine("Once more.")
    assert (await second.get(run.id)).status == "running"
    assert await (await second.resume(run.id)).wait() == "Once more."


def test_what_was_closed_on_a_loop_that_has_ended_says_so_on_another(tmp_path: Path) -> None:
    async def first() -> tuple[midstream.Engine, midstream.RunHandle]:
        engine = await midstream.open(tmp_path, model=ScriptedModel("Hi."), journal=":memory:")
        run = await engine.start("role:dude", "Hello!")
        await run.settled()
        await engine.close()
        return engine, run

    async def second() -> None:
        receipt = await run.say("And now?")
        assert receipt.reason == ("the run was let go of here: resume it in an engine that is open")
        with pytest.raises(midstream.UserMistake, match="does not follow it any more"):
            await run.wait()
        with pytest.raises(midstream.UserMistake, match="has let go of it"):
            await run.stop()
        await engine.close()

    engine, run = asyncio.run(first())
    asyncio.run(second())


async def cancelled_after(
    passes: int, work: Coroutine[Any, Any, object], *, is_again: bool
) -> None:
    """Cancel work after so many passes of the loop, and see it end.

    `is_again`: at each pass from then on, as a scope of anyio does.
    """
    doing = asyncio.ensure_future(work)
    for _ in range(passes):
        await asyncio.sleep(0)
    doing.cancel()
    while is_again and not doing.done():
        await asyncio.sleep(0)
        doing.cancel()
    await asyncio.wait((doing,))
    assert doing.cancelled() or doing.exception() is None


PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 512)
once_and_again = pytest.mark.parametrize("is_again", [False, True])


@once_and_again
async def test_a_cancelled_opening_leaves_nothing_open(tmp_path: Path, is_again: bool) -> None:
    async def enter() -> None:
        async with midstream.open(tmp_path, model=ScriptedModel(), journal=tmp_path / "j.db"):
            pass

    before = threading.active_count()
    opening = midstream.open(tmp_path, model=ScriptedModel(), journal=tmp_path / "j.db").begun()
    await cancelled_after(1, opening, is_again=is_again)
    for passes in PASSES:
        await cancelled_after(passes, enter(), is_again=is_again)

    assert list((tmp_path / "j.db.d").glob("*.lock")) == []
    wait_until(lambda: threading.active_count() <= before)


@once_and_again
async def test_an_engine_that_is_cancelled_while_it_closes_is_closed(
    tmp_path: Path, is_again: bool
) -> None:
    before = threading.active_count()
    for passes in PASSES:
        engine = await midstream.open(
            tmp_path, model=ScriptedModel(asks("Sure?")), journal=tmp_path / "j.db"
        )
        await (await engine.start(TALK)).settled()
        await cancelled_after(passes, engine.close(), is_again=is_again)
        assert list((tmp_path / "j.db.d").glob("*.lock")) == []
    wait_until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_store_that_does_not_close_holds_up_no_program_for_ever(
    here: Place, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    engine = await here.engine()

    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(engine.local.store, "aclose", hang)
    monkeypatch.setattr(assembly, "CLOSES_S", 0.1)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    if is_cancelled:
        closing.cancel()
    await asyncio.wait((closing,))
    assert closing.cancelled() == is_cancelled
    if not is_cancelled:
        with pytest.raises(WorldTrouble, match=r"The journal did not close in 0\.1 seconds"):
            closing.result()

    monkeypatch.undo()
    await engine.close()


@once_and_again
async def test_a_block_that_is_cancelled_while_it_is_entered_or_left_leaves_no_run_behind(
    here: Place, is_again: bool
) -> None:
    engine = await here.engine(*[asks("Sure?")] * 30)

    async def talk() -> None:
        async with engine.start("role:dude", "hello") as run:
            await run.wait()

    for passes in (*PASSES, *range(20, 120, 10)):
        await cancelled_after(passes, talk(), is_again=is_again)
        assert {each.status for each in await engine.runs()} <= {"stopped"}


@pytest.mark.parametrize("way", ["await", "async with"])
def test_under_a_loop_that_is_not_asyncio_s_it_is_said(tmp_path: Path, way: str) -> None:
    opening = midstream.open(tmp_path, model=ScriptedModel(), journal=":memory:")
    step = opening.begun() if way == "await" else opening.__aenter__()
    with pytest.raises(midstream.UserMistake, match="loop of asyncio"):
        step.send(None)  # as any other loop would


async def test_two_tasks_may_close_at_once(here: Place) -> None:
    engine = await here.engine(asks("Sure?"))
    run = await engine.start(TALK)
    await run.settled()
    await asyncio.gather(*(engine.close() for _ in range(8)))
    other = await here.engine("Done.")
    run = await other.resume(run.id)
    await run.say("yes")
    assert await run.wait() == "Done."


async def test_a_run_has_the_budget_it_was_given_and_never_more_than_the_settings(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = here.folder / "config"
    monkeypatch.setenv("MIDSTREAM_CONFIG_HOME", str(home))
    write(home, "application.json", '{"budget": {"transitions": 2, "toolCalls": 9}}')
    engine = await here.engine("Done.")
    states = [
        {"name": "start", "next": "then"},
        {"name": "then", "agent": "dude"},
        {"name": "stop"},
    ]
    flow = TALK | {"states": states}

    run = await engine.start(flow, budget={"transitions": 1, "tool_calls": 10, "usd": 1})
    assert await run.settled() == "waiting"
    assert [question.text for question in run.questions] == [
        "The run has used up its budget of 1 transition. Go on?"
    ]
    limits = run.run.usage.limits
    assert limits is not None
    assert (limits.transitions, limits.tool_calls, limits.usd) == (1, 9, 1)
    assert await run.wait(["no limit"]) == "Done."

    alone = await engine.start(flow, approvals="deny", budget={"transitions": 1})
    with pytest.raises(midstream.MidstreamError, match="used up its budget of 1 transition"):
        await alone.wait()
    with pytest.raises(midstream.UserMistake, match=r"euros.*usd, tokens"):
        await engine.start(flow, budget={"euros": 1})


async def test_an_agent_hears_of_skills_and_reads_one(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDSTREAM_CONFIG_HOME", str(here.folder / "config"))
    text = "---\ndescription: Counts animals\n---\nCount them twice.\n"
    write(here.folder / "config", "skills/zoo/SKILL.md", text)
    write(here.folder / "config", "skills/zoo/list.md", "A bear.")
    model = ScriptedModel(
        calls(
            call("load_skill", name="zoo"),
            call("load_skill", name="zoo", file="list.md"),
            call("load_skill", name="zoo", file="../../application.json"),
        ),
        "Two bears.",
    )
    engine = await midstream.open(here.workspace, model=model, journal=here.journal)
    here.engines.append(engine)
    chat = await engine.start("role:coder", "How many?")
    await chat.settled()

    asked, told = model.requests
    assert "- zoo: Counts animals" in asked.system
    assert "load_skill" in {tool.name for tool in asked.tools}
    skill, beside, away = [each.text for m in told.messages for each in m.results]
    assert "Count them twice." in skill
    assert "it allows nothing" in skill
    assert "A bear." in beside
    assert "is not the name of a file" in away
