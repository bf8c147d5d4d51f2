"""Handlers: plain and async, off the loop, and whatever they do wrong is said with its line."""

import asyncio
import contextvars
import functools
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest
from machine_kit import PLAIN, RESUME, START, flow, replayed, rounds, running, scene

from midstream.core.codec import encode_fact
from midstream.core.events import HandlerRan, InputReceived, RunFailed, RunStarted, WorkflowOutput
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.errors import AuthorMistake, WorldTrouble
from midstream.language.names import Json
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.testing.fakes import FakeJournal, Gate, call, define, says

Handler = Callable[[HandlerRun], Json]


def one(slot: str = "pre_handler", **fields: Json) -> dict[str, Json]:
    """Return a workflow of one state with one handler, `h`."""
    return flow({"name": "start", slot: "h", **fields})


async def ran(handler: Handler, workflow: dict[str, Json] | None = None, **start: Json) -> Run:
    """Return the run of a workflow with this handler, once it has ended."""
    async with scene(workflow or one(), "Done.", handlers={"h": handler}) as here:
        await here.machine.start(**start)
        return await here.machine.wait()


def both(plain: Handler) -> list[Handler]:
    """Return the handler as a plain, an async and a half-async function."""

    async def awaited(run: HandlerRun) -> Json:
        await asyncio.sleep(0)
        return plain(run)

    async def partly(word: str, run: HandlerRun) -> Json:
        return await awaited(run)

    return [plain, awaited, lambda run: awaited(run), functools.partial(partly, "x")]


async def test_handlers_of_every_make_do_the_same() -> None:
    def work(run: HandlerRun) -> str:
        run.common_data["state"] = run.state
        run.common_data["input"] = run.input
        run.common_data["names"] = sorted(run.contexts)
        run.contexts["talk"].add_message("user", "hello")
        run.variables["depth"] = 2
        return "after"

    workflow = flow({"name": "start", "transition_handler": "h"}, {"name": "after"})
    for handler in both(work):
        run = await ran(handler, workflow, input="tidy")

        assert run.status == "finished"
        assert run.common_data == {"state": "start", "input": "tidy", "names": ["talk"]}
        assert run.variables == {"depth": 2}
        assert [message.text for message in run.contexts["talk"]] == ["hello"]


async def test_a_plain_handler_never_blocks_the_loop() -> None:
    release, started = threading.Event(), Gate()
    loop = asyncio.get_running_loop()

    def slow(run: HandlerRun) -> None:
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(started.passed()))
        release.wait()

    async with running(one(), handlers={"h": slow}) as here:
        await started.reached()
        started.open()
        assert here.run.visit.phase == "pre"
        release.set()
        assert (await here.machine.wait()).status == "finished"


async def test_a_handler_runs_in_no_thread_of_the_loop() -> None:
    threads: list[int] = []
    await ran(lambda run: threads.append(threading.get_ident()))

    assert threads != [threading.get_ident()]


def _stop(run: HandlerRun) -> Json:
    return next(iter(()))


def _exit(run: HandlerRun) -> Json:
    raise SystemExit(3)


def _interrupt(run: HandlerRun) -> Json:
    raise KeyboardInterrupt


def _base(run: HandlerRun) -> Json:
    raise BaseException("skipped")


def _cancel(run: HandlerRun) -> Json:
    raise asyncio.CancelledError


def _timeout(run: HandlerRun) -> Json:
    raise TimeoutError("too slow")


class Mute(Exception):
    def __str__(self) -> str:
        return str(1 // 0)


def _mute(run: HandlerRun) -> Json:
    raise Mute


def _value(run: HandlerRun) -> Json:
    return json.loads("no json")


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (_stop, "StopIteration"),
        (_exit, "SystemExit: 3"),
        (_interrupt, "KeyboardInterrupt"),
        (_base, "BaseException: skipped"),
        (_cancel, "CancelledError"),
        (_timeout, "TimeoutError: too slow"),
        (_mute, "Mute: its message cannot be read (ZeroDivisionError)"),
        (_value, "JSONDecodeError: Expecting value"),
    ],
)
async def test_what_a_handler_raises_fails_the_run_with_its_line(
    handler: Handler, words: str
) -> None:
    line = handler.__code__.co_firstlineno + 1
    for made in both(handler):
        async with running(one(), handlers={"h": made}) as here:
            run = await here.machine.wait()

            (failed,) = here.told.of(RunFailed)
            assert run.status == "failed"
            assert failed.fault == "author"
            assert failed.error.startswith("The handler h raised ")
            assert f"{__file__}:{line}" in failed.error
            assert words in failed.error


def cancel_own_task() -> None:
    own = asyncio.current_task()
    assert own is not None
    own.cancel()


async def test_a_handler_that_cancels_its_own_task_fails_the_run_with_its_line() -> None:
    async def cancel(run: HandlerRun) -> None:
        cancel_own_task()
        await asyncio.sleep(0)

    async with running(one(), handlers={"h": cancel}) as here:
        await here.machine.wait()

        (failed,) = here.told.of(RunFailed)
        line = cancel.__code__.co_firstlineno + 2
        assert failed.error == (
            f"The handler h raised CancelledError: no message ({__file__}:{line})."
        )


class SlowJournal(FakeJournal):
    """A journal that takes a turn of the loop for each append, as one on a disk does."""

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Append, a turn later."""
        await asyncio.sleep(0)
        await super().append(run, expected, facts)


async def test_a_handler_that_has_returned_is_journaled_though_it_has_cancelled_its_task() -> None:
    async def cancel(run: HandlerRun) -> None:
        run.common_data["seen"] = True
        cancel_own_task()

    async with running(one(), handlers={"h": cancel}, journal=SlowJournal()) as here:
        run = await here.machine.wait()

        assert (run.status, run.common_data["seen"]) == ("finished", True)


async def test_a_generator_is_no_handler_since_nothing_of_it_has_run() -> None:
    def plain(run: HandlerRun) -> Iterator[None]:
        run.common_data["seen"] = True
        yield

    async def waiting(run: HandlerRun) -> AsyncIterator[None]:
        run.common_data["seen"] = True
        yield

    for handler in (plain, waiting):
        async with running(one(), handlers={"h": handler}) as here:
            await here.machine.wait()

            (failed,) = here.told.of(RunFailed)
            assert failed.error.endswith("is a generator, nothing of which has run.")
            assert failed.fault == "author"


async def test_an_error_of_midstreams_own_is_told_in_the_scripts_words() -> None:
    def give_up(run: HandlerRun) -> None:
        raise WorldTrouble("The oven is cold.", hint="Light it.")

    for made in both(give_up):
        async with running(one(), handlers={"h": made}) as here:
            await here.machine.wait()

            (failed,) = here.told.of(RunFailed)
            assert (failed.error, failed.hint) == ("The oven is cold.", "Light it.")
            assert failed.fault == "world"


async def test_a_handler_that_never_returns_fails_the_run() -> None:
    release = threading.Event()

    async def endless(run: HandlerRun) -> None:
        await asyncio.Event().wait()

    async def stubborn(run: HandlerRun) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("not now") from None

    try:
        handlers: list[Handler] = [lambda run: release.wait(), endless, stubborn]
        for handler in handlers:
            async with running(one(), handlers={"h": handler}, timeout_s=0.02) as here:
                run = await here.machine.wait()

                assert "The handler h of the script has not returned after 0.02 s." in run.error
    finally:
        release.set()


async def test_a_missing_handler_is_named_with_the_nearest() -> None:
    async with running(one(), handlers={"hh": _stop}) as here:
        run = await here.machine.wait()

        assert "the script has no handler 'h'" in run.error
        assert "hh" in here.told.of(RunFailed)[0].hint


async def test_a_workflow_without_a_script_says_so() -> None:
    with pytest.raises(AuthorMistake, match="which has no script, has no handler 'h'"):
        await ScriptHandlers({}, where="The workflow, which has no script,").call(
            "h", Run(id="r"), lambda text: None
        )


async def test_a_handler_that_wants_more_than_the_run_is_the_authors_mistake() -> None:
    async def greedy(run: HandlerRun, more: int) -> None:
        raise AssertionError

    for handler in (greedy, lambda: None):
        run = await ran(handler)  # type: ignore[arg-type]

        assert run.error.startswith("The handler h raised TypeError")


@pytest.mark.parametrize(("chosen", "words"), [("statr", "'statr'"), (5, "returned 5")])
async def test_an_unknown_next_state_fails_the_run(chosen: Json, words: str) -> None:
    async with running(one("transition_handler"), handlers={"h": lambda run: chosen}) as here:
        run = await here.machine.wait()

        assert run.status == "failed"
        assert words in run.error
        assert here.told.of(RunFailed)[0].fault == "author"


async def test_a_state_that_leads_to_itself_for_ever_fails_the_run() -> None:
    async with running(flow({"name": "start", "next": "start"})) as here:
        run = await here.machine.wait()

        assert "transitions in a row" in run.error


class _Text(str):
    __slots__ = ()


_CIRCLE: dict[str, Json] = {}
_CIRCLE["self"] = _CIRCLE


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1, 2}, "common_data.x is {1, 2} (set), which is no JSON value"),
        ((1, 2), "(tuple)"),
        (float("nan"), "nan (float)"),
        (float("inf"), "inf (float)"),
        ({"deep": [object]}, "common_data.x.deep[0] is <class 'object'> (type)"),
        ({5: "five"}, "common_data.x has the key 5"),
        (b"bytes", "(bytes)"),
        ("\ud800", "no Unicode"),
        ({"\ud800": 1}, "no Unicode"),
        (_CIRCLE, "nested more than"),
    ],
)
async def test_what_is_no_json_fails_the_run(value: Json, words: str) -> None:
    def keep(run: HandlerRun) -> None:
        run.common_data["x"] = value

    run = await ran(keep)

    assert run.status == "failed"
    assert words in run.error


@pytest.mark.parametrize("name", ["common_data", "variables"])
async def test_data_that_is_replaced_by_no_dict_fails_the_run(name: str) -> None:
    def replace(run: HandlerRun) -> None:
        setattr(run, name, None)

    run = await ran(replace)

    assert f"{name} is None (NoneType), no longer a dict" in run.error


async def test_data_may_be_replaced_by_another_dict() -> None:
    def first(run: HandlerRun) -> None:
        run.common_data = {"a": 1, "b": 2}

    def second(run: HandlerRun) -> None:
        run.common_data = {"b": 2, "c": _Text("three"), "d": 2**70}

    workflow = flow({"name": "start", "pre_handler": "first", "transition_handler": "second"})
    async with running(workflow, handlers={"first": first, "second": second}) as here:
        run = await here.machine.wait()

        assert run.common_data == {"b": 2, "c": "three", "d": 2**70}
        changed = [(fact.changed, fact.removed) for fact in here.told.of(HandlerRan)]
        assert changed == [({"a": 1, "b": 2}, ()), ({"c": "three", "d": 2**70}, ("a",))]


async def test_changes_deep_inside_are_seen_and_kept_apart() -> None:
    held: list[Json] = []

    def first(run: HandlerRun) -> None:
        run.common_data["list"] = held
        held.append({"n": 1})

    def second(run: HandlerRun) -> None:
        held.append("later")
        run.common_data["list"][0]["n"] = 1.0

    workflow = flow({"name": "start", "pre_handler": "first", "transition_handler": "second"})
    async with running(workflow, handlers={"first": first, "second": second}) as here:
        run = await here.machine.wait()

        assert json.dumps(run.common_data) == '{"list": [{"n": 1.0}]}'


async def test_the_runs_input_cannot_be_changed() -> None:
    given = {"files": ["a"]}

    def meddle(run: HandlerRun) -> None:
        run.input["files"].append("b")

    run = await ran(meddle, input=given)
    given["files"].append("c")

    assert run.input == {"files": ["a"]}


async def test_contexts_are_added_to_and_cleared() -> None:
    def change(run: HandlerRun) -> None:
        talk = run.contexts["talk"]
        talk.add_message("user", "one")
        talk.clear()
        talk.add_message("assistant", "two \ud800")
        assert [message.content for message in talk.messages] == ["Be.", "two \ufffd"]

    workflow = one(agent="dude")
    workflow["contexts"] = [
        {"name": "talk", "starting_messages": [{"role": "system", "content": "Be."}]}
    ]
    run = await ran(change, workflow)

    words = [(message.role, message.text) for message in run.contexts["talk"]]
    assert words == [("system", "Be."), ("assistant", "two \ufffd"), ("assistant", "Done.")]


@pytest.mark.parametrize(
    ("role", "content", "words"),
    [("robot", "hi", "role is 'robot'"), ("user", 5, "content is int"), ("user", None, "NoneType")],
)
async def test_a_message_has_a_known_role_and_text(role: Json, content: Json, words: str) -> None:
    run = await ran(lambda run: run.contexts["talk"].add_message(role, content))

    assert words in run.error


async def test_an_unknown_context_is_named_with_the_nearest() -> None:
    run = await ran(lambda run: run.contexts["talkk"].clear())

    assert "there is no context 'talkk'" in run.error
    assert "talk" in run.error


async def test_a_handler_sees_what_tools_came_to() -> None:
    seen: list[Json] = []

    def look(run: HandlerRun) -> None:
        seen.extend((r.name, r.outcome) for r in run.contexts["talk"].tool_results)
        assert run.last_response.text == "Done."

    async with running(
        one("post_handler", agent="dude"), call("nothing"), "Done.", handlers={"h": look}
    ) as here:
        run = await here.machine.wait()

        assert run.status == "finished"
        assert seen == [("nothing", "failed")]


async def test_with_a_post_handler_the_handler_decides_what_is_kept() -> None:
    def keep(run: HandlerRun) -> None:
        run.contexts["talk"].add_message("assistant", run.last_response.text.upper())

    run = await ran(keep, one("post_handler", agent="dude"), input="tidy")

    assert [message.text for message in run.contexts["talk"]] == ["tidy", "DONE."]


async def test_a_halted_handler_has_changed_nothing() -> None:
    gate, release, ended = Gate(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(run: HandlerRun) -> None:
        if run.resume_input is not None:
            return
        run.common_data["changed"] = True
        run.contexts["talk"].add_message("user", "changed")
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(gate.passed()))
        release.wait()
        run.log("too late")
        ended.set()

    async with running(one(), handlers={"h": slow}) as here:
        await gate.reached()
        gate.open()
        await here.machine.say("no")
        run = await here.machine.wait()
        release.set()
        ended.wait()
        await rounds()

        assert "changed" not in run.common_data
        assert run.contexts["talk"] == ()
        assert here.told.of(WorkflowOutput) == []


async def test_log_lines_appear_at_once_and_in_order() -> None:
    release = threading.Event()

    def work(run: HandlerRun) -> None:
        for n in range(5):
            run.log(n)
        release.wait()
        run.log("last")

    async with running(one(), handlers={"h": work}) as here:
        await here.told.until("workflow_output", count=5)
        assert here.run.visit.phase == "pre"
        release.set()
        await here.machine.wait()

        assert [fact.text for fact in here.told.of(WorkflowOutput)] == [*"01234", "last"]


async def test_an_async_handler_may_log_from_its_threads() -> None:
    async def work(run: HandlerRun) -> None:
        run.log("one")
        await asyncio.to_thread(run.log, "two")
        run.log("three \ud800")

    async with running(one(), handlers={"h": work}) as here:
        await here.machine.wait()

        lines = [fact.text for fact in here.told.of(WorkflowOutput)]
        assert lines == ["one", "two", "three \ufffd"]


async def test_the_last_line_of_a_handler_is_never_lost() -> None:
    for made in both(lambda run: run.log("last")):
        async with running(one(), handlers={"h": made}) as here:
            await here.machine.wait()

            assert [fact.text for fact in here.told.of(WorkflowOutput)] == ["last"]


async def test_what_a_handler_logs_is_heard_on_the_loop_whoever_logs_it() -> None:
    heard: list[int] = []

    async def work(run: HandlerRun) -> None:
        run.log("here")
        await asyncio.to_thread(run.log, "there")

    begun = apply(Run(id="r"), RunStarted(workflow="w", definition=define(one())))
    handlers = ScriptHandlers({"a": work, "b": lambda run: run.log("from a thread")})
    for name in ("a", "b"):
        await handlers.call(name, begun, lambda text: heard.append(threading.get_ident()))

    assert heard == [threading.get_ident()] * 3


async def test_a_handler_that_logs_very_fast_leaves_turns_to_others() -> None:
    turns = 0

    async def work(run: HandlerRun) -> None:
        for n in range(2000):
            run.log(n)

    async def count() -> None:
        nonlocal turns
        while here.run.visit.phase != "ended":
            turns += 1
            await asyncio.sleep(0)

    async with scene(one(), handlers={"h": work}) as here:
        await asyncio.gather(here.machine.start(), count(), here.told.until("run_finished"))
        await here.machine.wait()

        assert len(here.told.of(WorkflowOutput)) == 2000
        assert turns > 20


async def test_unasked_words_during_a_handler_come_to_the_resume_state() -> None:
    gate = Gate()

    async def pre(run: HandlerRun) -> None:
        if run.resume_input is None:
            await gate.passed()

    workflow = flow({**START, "pre_handler": "h"}, RESUME)
    async with running(workflow, "Noted.", "Done.", handlers={"h": pre}, input="tidy") as here:
        await gate.reached()
        await here.machine.say("no, rename")
        await here.machine.wait()

        assert here.told.path() == ["start", "resume", "start", "stop"]
        assert ("user", "no, rename") in here.model.asked[0].words()


async def test_an_agent_without_a_handler_needs_none() -> None:
    async with running(PLAIN, "Done.") as here:
        await here.machine.wait()

        assert here.told.of(HandlerRan) == []


async def test_what_a_handler_sets_in_its_context_the_next_one_does_not_see() -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")
    seen: list[str] = []

    async def h(run: HandlerRun) -> None:
        seen.append(mark.get())
        mark.set(run.state)

    workflow = flow(
        {"name": "start", "pre_handler": "h", "next": "more"}, {"name": "more", "pre_handler": "h"}
    )
    run = await ran(h, workflow)

    assert run.status == "finished"
    assert seen == ["", ""]


async def test_words_said_while_a_handlers_end_is_journaled_are_taken_after_it() -> None:
    journal, gate, ended = FakeJournal(), Gate(), asyncio.Event()

    async def h(run: HandlerRun) -> None:
        journal.gate = gate
        ended.set()

    async with running(
        flow({"name": "start", "pre_handler": "h", "agent": "dude"}, RESUME),
        says("Once"),
        "Done.",
        handlers={"h": h},
        journal=journal,
    ) as here:
        await ended.wait()
        await gate.reached()
        saying = asyncio.create_task(here.machine.say("wait"))
        await asyncio.sleep(0)
        journal.gate = None
        gate.open()
        receipt = await saying
        run = await here.machine.wait()

    assert receipt.handling == "interrupt"
    assert run.halt.resume_input == "wait"
    kinds = [type(envelope.event) for envelope in here.told.events]
    assert kinds.index(HandlerRan) < kinds.index(InputReceived)


async def test_a_journal_that_fails_at_a_handlers_end_fails_the_run_visibly() -> None:
    journal = FakeJournal()

    async def h(run: HandlerRun) -> None:
        journal.trouble = WorldTrouble("The disk is full.")

    async with running(one(), handlers={"h": h}, journal=journal, is_journaled=False) as here:
        run = await here.machine.wait()

    assert run.status == "failed"
    assert run.error == "The disk is full."


# --- large values -------------------------------------------------------------------------------


def talk() -> list[Json]:
    """Fifty messages of 200 characters."""
    return [f"{number:03} ".ljust(200, "x") for number in range(50)]


async def changed_by(change: Handler, first: Json) -> tuple[Run, HandlerRan]:
    """Return a run whose second handler has changed `talk`, which held `first`, and that fact."""
    workflow = flow({"name": "start", "pre_handler": "first", "transition_handler": "second"})

    def begin(run: HandlerRun) -> None:
        run.common_data["talk"] = first

    async with running(workflow, handlers={"first": begin, "second": change}) as here:
        run = await here.machine.wait()
        assert run.status == "finished", run.error
        assert replayed(run.id, await here.journal.read(run.id)).common_data == run.common_data
        return run, here.told.of(HandlerRan)[-1]


async def test_what_is_journaled_of_a_large_value_is_what_changed_in_it() -> None:
    def change(run: HandlerRun) -> None:
        run.common_data["talk"].append("new")
        del run.common_data["talk"][0]

    for handler in both(change):
        run, fact = await changed_by(handler, talk())

        assert run.common_data["talk"] == [*talk()[1:], "new"]
        assert fact.changed == {}
        assert len(encode_fact(fact)) < 300


async def test_a_large_value_that_nobody_changed_is_no_change() -> None:
    run, fact = await changed_by(lambda run: len(run.common_data["talk"]) and None, talk())

    assert run.common_data["talk"] == talk()
    assert (fact.changed, fact.edits) == ({}, ())


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), {5: "x"}, 2**5000])
async def test_what_is_no_json_within_a_large_value_is_named_by_its_place(value: object) -> None:
    def change(run: HandlerRun) -> None:
        run.common_data["talk"] += ["fine", value]

    workflow = flow({"name": "start", "pre_handler": "first", "transition_handler": "second"})

    def begin(run: HandlerRun) -> None:
        run.common_data["talk"] = talk()

    async with running(workflow, handlers={"first": begin, "second": change}) as here:
        run = await here.machine.wait()

    assert run.status == "failed"
    assert "common_data.talk[51]" in run.error


SECRET = "sk-proj-" + "Ab3" * 16


@pytest.mark.parametrize(
    ("first", "change"),
    [
        (talk(), lambda talk: talk.append(f"the key is {SECRET}")),
        ([{"text": "x" * 600}], lambda talk: talk[0].update(password="hunter2hunter2")),
        ([{"text": "x" * 600}], lambda talk: talk[0].update({SECRET: 1})),
        (
            {"text": "x " * 300 + SECRET[:9]},
            lambda talk: talk.update(text=talk["text"] + SECRET[9:]),
        ),
    ],
    ids=["in an item", "behind its key", "as a key", "begun before"],
)
async def test_a_secret_within_a_large_value_is_taken_out(
    first: Json, change: Callable[[Json], None]
) -> None:
    run, fact = await changed_by(lambda run: change(run.common_data["talk"]), first)

    told = encode_fact(fact).decode()
    assert fact.edits
    assert "[redacted: " in told
    kept = json.dumps(run.common_data)
    assert not any(part in told + kept for part in (SECRET, SECRET[9:], "hunter2hunter2"))
    assert "[redacted: " in kept


async def test_from_python_3_12_on_what_need_not_wait_costs_no_pass_of_the_loop() -> None:
    passes: list[int] = []
    seen: list[int] = []

    async def first(run: HandlerRun) -> None:
        asyncio.get_running_loop().call_soon(passes.append, 1)

    async def second(run: HandlerRun) -> None:
        seen.append(len(passes))

    workflow = flow({"name": "start", "pre_handler": "first", "post_handler": "second"})
    async with scene(workflow, handlers={"first": first, "second": second}) as here:
        await here.machine.start()
        await here.machine.wait()

    assert seen == ([0] if sys.version_info >= (3, 12) else [1])
