"""The same engine without an event loop: in scripts, in notebooks, under another loop."""

import asyncio
import inspect
import pydoc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from api_kit import TALK
from deadline import DEADLINE_S, wait_until

import midstream
from midstream.api.controls import Controls
from midstream.api.engine import Engine
from midstream.api.run_handle import RunHandle
from midstream.api.sync import SyncControls, SyncEngine, SyncRun
from midstream.testing import ScriptedModel, asks


def test_a_whole_run_in_one_call(tmp_path: Path) -> None:
    model = ScriptedModel(asks("What is your name?"), "Welcome, Ada.")

    output = midstream.run(
        TALK, "greet", answers=["Ada"], model=model, journal=":memory:", workspace=tmp_path
    )

    assert output == "Welcome, Ada."
    assert not [t for t in threading.enumerate() if t.name == "midstream-engine"]


def test_a_question_without_an_answer_is_an_error_and_the_run_goes_on_later(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with pytest.raises(midstream.UserMistake, match="Sure\\?"):
        midstream.run(TALK, model=ScriptedModel(asks("Sure?")), journal=journal, workspace=tmp_path)
    with midstream.open_sync(tmp_path, model=ScriptedModel("Done."), journal=journal) as engine:
        (info,) = engine.runs()
        run = engine.resume(info.id)
        run.say("yes")
        assert run.wait() == "Done."
        assert [each.title for each in engine.runs()] == ["talk: yes"]


def test_events_are_yielded_while_the_run_goes_on_in_its_thread(tmp_path: Path) -> None:
    with midstream.open_sync(
        tmp_path, model=ScriptedModel(asks("Sure?"), "Done."), journal=":memory:"
    ) as engine:
        run = engine.start(TALK)
        words = ""
        for event in run.events():
            match event:
                case midstream.QuestionAsked(question_id=id):
                    assert run.answer(id, "yes").handling == "answer"
                case midstream.TextDelta(text=text):
                    words += text
        assert (words, run.reply, run.output, run.status) == ("Done.", "Done.", "Done.", "finished")
        for event in run.events():  # one that is left early is closed
            assert isinstance(event, midstream.RunStarted)
            break


PAIRS: tuple[tuple[type, type, set[str]], ...] = (
    (SyncEngine, Engine, {"local"}),  # which is inside
    (SyncRun, RunHandle, set()),
    (SyncControls, Controls, set()),
)


@pytest.mark.parametrize(("kind", "of", "left_out"), PAIRS)
def test_what_an_engine_with_a_loop_has_one_without_has_too(
    kind: type, of: type, left_out: set[str]
) -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(kind) == public(of) - left_out
    for name in public(kind) - {"turn"}:  # a turn is entered in another way
        assert getattr(vars(kind)[name], "__doc__", "") == getattr(of, name).__doc__, name
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            parameters = inspect.signature(method).parameters
            assert parameters == inspect.signature(getattr(of, name)).parameters, name


def test_what_opens_it_takes_what_the_one_with_a_loop_takes() -> None:
    assert (
        inspect.signature(midstream.open_sync).parameters
        == inspect.signature(midstream.open).parameters
    )


def test_help_of_what_returns_a_run_says_which(tmp_path: Path) -> None:
    shown = pydoc.plain(pydoc.render_doc(SyncEngine))

    assert "start(self, workflow: " in shown
    assert "Begun" not in shown
    assert shown.count("-> 'SyncRun'") == 5


def test_a_run_is_looked_at_in_its_facts_and_deleted(tmp_path: Path) -> None:
    with midstream.open_sync(
        tmp_path, model=ScriptedModel("Done."), journal=tmp_path / "journal.db"
    ) as engine:
        run = engine.start(TALK, key="one")
        run.wait()
        assert (engine.run_id("one"), run.is_here, run.streaming()) == (run.id, True, ())
        facts = engine.facts(run.id)
        assert isinstance(facts[0].event, midstream.RunStarted)
        assert engine.facts(run.id, 1, limit=1) == facts[1:2]
        engine.delete(run.id)
        assert engine.info(run.id) is None


def test_a_turn_is_heard_to_its_end(tmp_path: Path) -> None:
    model = ScriptedModel(asks("What is your name?"), "Welcome, Ada.")
    with midstream.open_sync(tmp_path, model=model, journal=":memory:") as engine:
        run = engine.start(TALK)
        assert run.settled() == "waiting"
        with run.turn() as turn:
            run.say("Ada")
            heard = [each.event for each in turn]

    said = "".join(event.text for event in heard if isinstance(event, midstream.TextDelta))
    assert said == "Welcome, Ada."
    assert isinstance(heard[-1], midstream.RunFinished)


def test_what_a_person_changes_is_changed_from_any_thread(tmp_path: Path) -> None:
    with midstream.open_sync(tmp_path, model="offline", journal=":memory:") as engine:
        controls = engine.controls
        controls.use_permission_mode("plan")
        assert (engine.controls.permission_mode, controls.model) == ("plan", "offline")
        with pytest.raises(midstream.UserMistake):
            controls.use_permission_mode("sideways")
        with pytest.raises(AttributeError):
            controls.model = "other"
        assert controls.commands() == {}


def test_after_its_block_a_run_says_that_its_engine_is_closed(tmp_path: Path) -> None:
    with midstream.open_sync(
        tmp_path, model=ScriptedModel(asks("Sure?")), journal=":memory:"
    ) as engine:
        run = engine.start(TALK)
        events = run.events()  # nobody closes it
        assert isinstance(next(events), midstream.RunStarted)

    for late in (run.settled, engine.runs, lambda: run.say("yes"), lambda: next(events)):
        with pytest.raises(midstream.UserMistake, match="engine is closed"):
            late()


def test_an_engine_without_a_block_is_closed_by_hand_as_over_the_cells_of_a_notebook(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "j.db"
    before = threading.active_count()
    engine = midstream.open_sync(tmp_path, model=ScriptedModel(asks("Sure?")), journal=journal)
    run = engine.start(TALK)
    run.settled()
    engine.close()
    engine.close()
    wait_until(lambda: threading.active_count() <= before)
    with pytest.raises(midstream.UserMistake, match="engine is closed"):
        run.settled()

    with midstream.open_sync(tmp_path, model=ScriptedModel("Done."), journal=journal) as engine:
        run = engine.resume(run.id)
        run.say("yes")
        assert run.wait() == "Done."


def test_an_async_handler_that_waits_for_its_own_engine_is_refused(tmp_path: Path) -> None:
    flow = midstream.Workflow("flow")
    engines: list[midstream.SyncEngine] = []

    @flow.start
    async def ask_itself(run: midstream.StateRun) -> object:
        return midstream.stop(len(engines[0].runs()))

    with midstream.open_sync(tmp_path, model=ScriptedModel(), journal=":memory:") as engine:
        engines.append(engine)
        with pytest.raises(midstream.UserMistake, match="cannot wait for the engine"):
            engine.start(flow).wait()


def test_a_workflow_in_python_is_given_again_to_go_on(tmp_path: Path) -> None:
    flow = midstream.Workflow("flow")
    journal = tmp_path / "journal.db"

    @flow.start(question="Sure?")
    def ask(run: midstream.StateRun) -> object:
        return midstream.stop(run.result)

    with midstream.open_sync(tmp_path, model=ScriptedModel(), journal=journal) as engine:
        id = engine.start(flow).id
    with midstream.open_sync(tmp_path, model=ScriptedModel(), journal=journal) as engine:
        run = engine.resume(id, flow)
        run.say("yes")
        assert run.wait() == "yes"


async def test_it_works_inside_a_running_loop_as_in_a_notebook(tmp_path: Path) -> None:
    output = midstream.run(
        TALK, model=ScriptedModel("Done."), journal=":memory:", workspace=tmp_path
    )
    assert output == "Done."


async def test_several_threads_may_talk_to_one_engine(tmp_path: Path) -> None:
    def talk(engine: midstream.SyncEngine, heard: list[object]) -> None:
        run = engine.start(TALK)
        run.settled()
        run.say("yes")
        heard.append(run.wait())

    def reply(request: object) -> object:
        return "Done." if "yes" in str(request) else asks("Sure?")

    heard: list[object] = []
    with midstream.open_sync(tmp_path, model=ScriptedModel(reply), journal=":memory:") as engine:  # type: ignore[arg-type]
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(asyncio.to_thread(talk, engine, heard) for _ in range(5)))
    assert heard == ["Done."] * 5


UVLOOP = """
import asyncio, sys, uvloop, midstream
from midstream.testing import ScriptedModel, asks

async def main():
    model = ScriptedModel(asks("Sure?"), "Done.")
    async with midstream.open(sys.argv[1], model=model, journal=sys.argv[1] + "/journal.db") as engine:
        assert type(asyncio.get_running_loop()).__module__ == "uvloop"
        chat = await engine.start("role:dude", "hello")
        await chat.settled()
        await chat.say("yes")
        await chat.settled()
        print(chat.reply)

uvloop.run(main())
"""


def test_it_works_under_uvloop(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", UVLOOP, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("Done.\n", 0), done.stderr


def test_importing_midstream_imports_no_adapter() -> None:
    code = "import midstream, sys; print([m for m in sys.modules if m.startswith('midstream.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['midstream._version']\n"


def test_everything_named_can_be_had() -> None:
    for name in midstream.__all__:
        assert getattr(midstream, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        midstream.opne  # noqa: B018
