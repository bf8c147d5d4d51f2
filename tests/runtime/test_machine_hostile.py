"""Values that break stores: normalised, capped with the whole in the blob store, or refused in words.

Whatever a model, a tool, a handler or a person sends, each fact can be written and read again (the
scene folds the run from its facts as bytes), and the run goes on or fails with an error of its author.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from machine_kit import PLAIN, RESUMING, START, Scene, at_rest, flow, running, scene

from midstream.core import events as e
from midstream.core.codec import decode_fact, encode_fact
from midstream.core.inputs import RequestedCall
from midstream.core.question import Decision
from midstream.language.errors import AuthorMistake, JournalFull, UserMistake
from midstream.language.names import Json
from midstream.language.spec import State
from midstream.runtime import json_values, text_limits
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import ToolOutcome
from midstream.runtime.user_words import value_of
from midstream.testing.fakes import FakeBlobStore, FakeTool, Gate, Scripted, asks, call, says


def deep(levels: int) -> Json:
    """Return a list in a list in a list."""
    value: Json = []
    for _ in range(levels):
        value = [value]
    return value


def itself() -> Json:
    """Return a dict that holds itself."""
    value: dict[str, Json] = {}
    value["me"] = value
    return value


UNKEEPABLE: dict[str, Json] = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "surrogate": "half \ud800",
    "surrogate_key": {"\udfff": 1},
    "deep": deep(10_000),
    "itself": itself(),
    "long_number": 10**5_000,
    "bytes": b"\xff",
    "set": {1},
    "object": object(),
    "number_key": {1: 2},
    "late_nan": [[{"a": [1.0, float("nan")]}]],
}
KEEPABLE: dict[str, Json] = {
    "nul": "a\0b",
    "2**63": 2**63,
    "2**64": 2**64,
    "-2**63-1": -(2**63) - 1,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "minus_zero": -0.0,
    "astral": "\U0001f600\u202e\u0301",
    "deep_enough": deep(150),
    "empty_key": {"": {"": None}},
}
each_unkeepable = pytest.mark.parametrize("name", UNKEEPABLE)
each_keepable = pytest.mark.parametrize("name", KEEPABLE)


def written(here: Scene) -> None:
    """Fail unless every fact can be written and read again."""
    for told in here.told.events:
        if isinstance(told.event, e.Fact):
            assert decode_fact(encode_fact(told.event)) == told.event


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let few characters be many, and return how few."""
    monkeypatch.setattr(text_limits, "MAX_TEXT", 100)
    return 100


def blobs_of(here: Scene) -> FakeBlobStore:
    blobs = here.machine._world.blobs
    assert isinstance(blobs, FakeBlobStore)
    return blobs


def is_capped(text: str, whole: str, here: Scene) -> bool:
    """Return whether a text is the ends of the whole, and the blob store has all of it."""
    ends = text.startswith(whole[:50]) and text.endswith(whole[-50:])
    return (
        ends
        and f"{len(whole)} characters" in text
        and whole.encode() in blobs_of(here).kept.values()
    )


# --- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("half \ud800 pair", "half \ufffd pair"),
        ("\ud83d\ude00 whole", "\U0001f600 whole"),
        ("n\0l", "n\ufffdl"),
        ("\u202e\x1b[31m\x07", "\u202e\x1b[31m\x07"),
    ],
)
async def test_the_words_of_a_reply_are_made_readable(sent: str, kept: str) -> None:
    async with running(PLAIN, Scripted(pieces=(sent,)), input="tidy") as here:
        assert (await here.machine.wait()).output == kept
    written(here)


async def test_a_long_reply_is_capped_and_the_whole_is_in_the_blob_store(short: int) -> None:
    whole = "".join(f"{n} " for n in range(300))
    async with running(PLAIN, says(whole), input="tidy") as here:
        run = await here.machine.wait()
        assert is_capped(run.output, whole, here)


async def test_a_reply_of_a_hundred_megabytes_ends_a_turn_like_any_other() -> None:
    whole = "x" * 100_000_000
    async with scene(PLAIN, Scripted(pieces=()), whole[:1]) as here:
        text = await text_limits.capped(whole, blobs_of(here))
        assert len(text) < text_limits.MAX_TEXT + 200
        assert f"{len(whole)} characters" in text
        await here.machine.start("tidy")
        await here.machine.wait()


@each_unkeepable
async def test_arguments_that_cannot_be_kept_are_refused_in_words_to_the_model(name: str) -> None:
    sent = RequestedCall(name="look", arguments={"a": UNKEEPABLE[name]})
    look = FakeTool(name="look")
    async with running(PLAIN, Scripted(calls=(sent,)), "Done.", tools=[look], input="tidy") as here:
        assert (await here.machine.wait()).output == "Done."
        (returned,) = here.told.of(e.ToolReturned)
        assert returned.outcome == "failed"
        assert "arguments" in returned.result
        assert here.tools.calls == []
    written(here)


@each_keepable
async def test_arguments_that_are_only_odd_reach_the_tool(name: str) -> None:
    sent = RequestedCall(name="look", arguments={"a": KEEPABLE[name]})
    look = FakeTool(name="look")
    async with running(PLAIN, Scripted(calls=(sent,)), "Done.", tools=[look], input="tidy") as here:
        await here.machine.wait()
        assert repr(here.tools.calls[0].arguments) == repr({"a": KEEPABLE[name]})
        assert len(here.told.of(e.ToolCalled)) == 1
    written(here)


@pytest.mark.parametrize("tool", ["no\ud800pe", "n\0", "x" * 10_000_000, "", "../..", "look\n"])
async def test_the_name_of_a_tool_that_is_none_is_told_to_the_model(tool: str) -> None:
    sent = Scripted(calls=(RequestedCall(name=tool, arguments={}),))
    async with running(PLAIN, sent, "Done.", input="tidy") as here:
        assert (await here.machine.wait()).output == "Done."
        (returned,) = here.told.of(e.ToolReturned)
        assert returned.outcome == "failed"
        assert len(returned.name) <= json_values.MAX_NAME
    written(here)


@pytest.mark.parametrize("key", ["\ud800", "x" * 20_000_000])
async def test_a_question_whose_arguments_cannot_be_kept_is_not_asked(key: str) -> None:
    async with running(PLAIN, asks("Which?", **{key: 1}), "Done.", input="tidy") as here:
        assert (await here.machine.wait()).output == "Done."
        assert not here.run.inbox.questions
    written(here)


@pytest.mark.parametrize(
    "usage",
    [
        e.Usage(model="m", input_tokens=1.5),  # type: ignore[arg-type]
        e.Usage(model=None),  # type: ignore[arg-type]
        e.Usage(model="m", cost_usd=float("nan")),  # type: ignore[arg-type]
        "free",
    ],
)
async def test_a_usage_that_is_none_is_left_out(usage: Any) -> None:
    async with running(PLAIN, Scripted(pieces=("Done.",), usage=usage), input="tidy") as here:
        assert (await here.machine.wait()).usage.requests == ()
    written(here)


async def test_the_error_of_a_model_is_kept_short_and_readable() -> None:
    async with running(PLAIN, ValueError("\ud800" + "x" * 1_000_000), input="tidy") as here:
        await here.machine.wait()
        (failed,) = here.told.of(e.AgentFailed)
        assert len(failed.error) < text_limits.MAX_ERROR + 100
    written(here)


# --- tools ----------------------------------------------------------------------------------------


async def test_a_long_result_is_capped_and_the_whole_is_in_the_blob_store(short: int) -> None:
    whole = "".join(f"{n} " for n in range(300))
    look = FakeTool(name="look", answer=whole)
    async with running(PLAIN, call("look"), "Done.", tools=[look], input="tidy") as here:
        await here.machine.wait()
        assert is_capped(here.told.of(e.ToolReturned)[0].result, whole, here)


async def test_a_long_result_that_finds_no_room_is_cut_and_the_call_has_not_failed(
    short: int,
) -> None:
    class Full(FakeBlobStore):
        async def put(self, data: bytes) -> str:
            raise JournalFull("There is no room.")

    shell = FakeTool(name="shell", effect="once", answer="\ud800" + "x" * 500)
    async with scene(PLAIN, call("shell"), "Done.", tools=[shell]) as here:
        here.machine._world = msgspec.structs.replace(here.machine._world, blobs=Full())
        await here.machine.start("tidy")
        await here.machine.wait()
        (returned,) = here.told.of(e.ToolReturned)
        assert returned.outcome == "completed"
        assert "could not be kept: There is no room." in returned.result
        assert len(returned.result) < 300
    written(here)


@pytest.mark.parametrize(
    "ended",
    [
        ToolOutcome(outcome="fine", text="ok"),  # type: ignore[arg-type]
        ToolOutcome(outcome="completed", text=None),  # type: ignore[arg-type]
        ToolOutcome(outcome="completed", text=b"\xff"),  # type: ignore[arg-type]
        ToolOutcome(outcome=[], text="x"),  # type: ignore[arg-type]
    ],
)
async def test_an_outcome_that_is_none_fails_the_call(ended: ToolOutcome) -> None:
    look = FakeTool(name="look", answer=ended)
    async with running(PLAIN, call("look"), "Done.", tools=[look], input="tidy") as here:
        assert (await here.machine.wait()).output == "Done."
        assert here.told.of(e.ToolReturned)[0].outcome == "failed"
    written(here)


# --- handlers -------------------------------------------------------------------------------------


async def handled(change: Any) -> Scene:
    """Return the scene of a run whose pre_handler does this."""
    workflow = flow({**START, "pre_handler": "go"})
    async with running(workflow, "Done.", handlers={"go": change}, input="tidy") as here:
        await here.machine.wait()
    written(here)
    return here


@each_unkeepable
@pytest.mark.parametrize("where", ["common_data", "variables"])
async def test_data_that_cannot_be_kept_is_its_authors_mistake(name: str, where: str) -> None:
    def go(run: HandlerRun) -> None:
        getattr(run, where)["a"] = UNKEEPABLE[name]

    here = await handled(go)
    (failed,) = here.told.of(e.RunFailed)
    assert (failed.fault, bool(failed.hint)) == ("author", True)
    assert where in failed.error


@each_keepable
async def test_data_that_is_only_odd_is_kept_as_it_is(name: str) -> None:
    def go(run: HandlerRun) -> None:
        run.common_data["a"] = KEEPABLE[name]

    here = await handled(go)
    assert here.run.output == "Done."
    assert repr(here.run.common_data["a"]) == repr(KEEPABLE[name])


async def test_data_of_many_megabytes_is_its_authors_mistake() -> None:
    def go(run: HandlerRun) -> None:
        run.common_data["a"] = "x" * (json_values.MAX_BYTES + 1)

    (failed,) = (await handled(go)).told.of(e.RunFailed)
    assert failed.fault == "author"
    assert "a file" in failed.hint


async def test_a_message_of_many_megabytes_is_its_authors_mistake() -> None:
    def go(run: HandlerRun) -> None:
        run.contexts["talk"].add_message("user", "x" * (json_values.MAX_BYTES + 1))

    (failed,) = (await handled(go)).told.of(e.RunFailed)
    assert failed.fault == "author"


async def test_log_lines_are_made_readable_and_not_endless(short: int) -> None:
    def go(run: HandlerRun) -> None:
        run.log("half \ud800\0")
        run.log("\ud800" * 10_000)

    here = await handled(go)
    first, second = (fact.text for fact in here.told.of(e.WorkflowOutput) if fact.kind == "log")
    assert first == "half \ufffd\ufffd"
    assert len(second) < 200


@pytest.mark.parametrize(
    "chosen", ["\ud800", "n\0", "x" * 1_000_000, {"\ud800": 1}, deep(10_000), object(), b"stop", 2]
)
async def test_a_choice_that_is_no_state_is_its_authors_mistake(chosen: Any) -> None:
    workflow = flow({**START, "transition_handler": "go"})
    async with running(
        workflow, "Done.", handlers={"go": lambda run: chosen}, input="tidy"
    ) as here:
        await here.machine.wait()
        (failed,) = here.told.of(e.RunFailed)
        assert failed.fault == "author"
        assert len(failed.error) < 1_000
    written(here)


async def test_what_a_handler_raises_is_kept_short_and_readable() -> None:
    def go(run: HandlerRun) -> None:
        raise ValueError("\ud800" + "x" * 1_000_000)

    (failed,) = (await handled(go)).told.of(e.RunFailed)
    assert failed.fault == "author"
    assert len(failed.error) < text_limits.MAX_ERROR + 100


# --- people and programs --------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["half \ud800", "n\0l", "\udfff\ud800", "\x1b]0;x\x07"])
async def test_a_line_is_made_readable(line: str) -> None:
    async with at_rest(RESUMING, asks("Which?"), "Done.", input="tidy") as here:
        receipt = await here.machine.say(line, id=line, source=line)
        await here.machine.wait()
        assert here.run.inbox.lines[receipt.input_id].disposition == "answered"
    written(here)


async def test_a_long_line_is_capped_and_the_whole_is_in_the_blob_store(short: int) -> None:
    whole = "".join(f"{n} " for n in range(300))
    async with at_rest(RESUMING, asks("Which?"), "Done.", input="tidy") as here:
        await here.machine.say(whole)
        await here.machine.wait()
        (record,) = here.run.inbox.lines.values()
        assert is_capped(record.text, whole, here)


async def test_a_long_line_that_finds_no_room_is_refused(short: int) -> None:
    class Full(FakeBlobStore):
        async def put(self, data: bytes) -> str:
            raise JournalFull("There is no room.")

    async with scene(RESUMING, asks("Which?"), "Done.") as here:
        here.machine._world = msgspec.structs.replace(here.machine._world, blobs=Full())
        await here.machine.start("tidy")
        await here.machine.settled()
        with pytest.raises(JournalFull):
            await here.machine.say("x" * 200)
        assert here.run.inbox.lines == {}


async def test_a_policy_that_is_none_is_refused() -> None:
    async with at_rest(RESUMING, asks("Which?"), input="tidy") as here:
        with pytest.raises(UserMistake, match="not a policy"):
            await here.machine.say("no", policy="shout")  # type: ignore[arg-type]
        assert here.run.inbox.lines == {}


async def test_reasons_and_notes_are_made_readable() -> None:
    write = FakeTool(name="write", needs_approval=True)
    async with at_rest(PLAIN, call("write"), asks("Which?"), tools=[write], input="tidy") as here:
        await here.machine.approve(here.question(), Decision(granted=False, note="half \ud800"))
        await here.machine.settled()
        await here.machine.say("x", question="q\ud8009")
        await here.machine.stop("half \ud800")
    written(here)


@pytest.mark.parametrize(
    "line", ["1e400", "NaN", "[" * 10_000 + "]" * 10_000, '"\\ud800"', "[" * 300 + "]" * 300, "-"]
)
async def test_an_answer_that_is_no_json_is_taken_as_words(line: str) -> None:
    async with at_rest(
        PLAIN, asks("How many?", schema={"type": "integer"}), "Done.", input="tidy"
    ) as here:
        await here.machine.say(line)
        assert here.run.inbox.open_questions, "words are no integer: the question stays open"
        await here.machine.say("5")
        await here.machine.wait()
    written(here)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1])
async def test_an_answer_may_be_a_large_number(number: int) -> None:
    async with at_rest(
        PLAIN, asks("How many?", schema={"type": "integer"}), "Done.", input="tidy"
    ) as here:
        await here.machine.say(str(number))
        await here.machine.wait()
        assert here.told.of(e.ToolReturned)[0].result == str(number)
    written(here)


def test_a_line_read_as_json_is_never_deep_and_never_endless() -> None:
    for line in ("[" * 100 + "]" * 100, '{"a":' * 100 + "1" + "}" * 100, "9" * 5_000):
        assert value_of(line, {}) == line


@each_unkeepable
@pytest.mark.parametrize("where", ["input", "variables"])
async def test_a_start_with_what_cannot_be_kept_is_refused(name: str, where: str) -> None:
    value = UNKEEPABLE[name]
    given: dict[str, Any] = {"input": value} if where == "input" else {"variables": {"a": value}}
    async with scene(PLAIN, "Done.") as here:
        with pytest.raises((AuthorMistake, UserMistake)):
            await here.machine.start(**given)
        await here.machine.start("tidy")
        await here.machine.wait()
    written(here)


async def test_a_folder_whose_name_is_no_text_can_be_worked_in() -> None:
    async with scene(PLAIN, "Done.") as here:
        world = msgspec.structs.replace(here.machine._world, workspace=Path("/w/half-\udcff"))
        here.machine._world = world
        await here.machine.start("tidy")
        assert (await here.machine.wait()).workspace == "/w/half-\ufffd"
    written(here)


async def test_what_no_edge_expected_fails_the_run_and_never_the_journal() -> None:
    # A definition made in code that breaks its types: the last net is the journal's own check.
    async with scene(PLAIN, "Done.", is_journaled=False) as here:
        definition = here.machine._definition
        start = State(name="start", agent="dude", description="\ud800")
        workflow = msgspec.structs.replace(
            definition.workflow, states=(start, *definition.workflow.states[1:])
        )
        here.machine._definition = msgspec.structs.replace(definition, workflow=workflow)
        await here.machine.start("tidy")
        assert (await here.machine.wait()).status == "failed"
        assert await here.journal.read(here.machine.id) == []
    written(here)


async def test_a_reply_cut_after_many_characters_is_kept_in_its_ends(short: int) -> None:
    gate = Gate()
    whole = "".join(f"{n} " for n in range(300))
    script = says(whole, gate=gate, after=1), "I see.", "Done."
    async with running(RESUMING, *script, is_journaled=False, input="tidy") as here:
        await gate.reached()
        await here.machine.say("no")
        await here.machine.wait()
        (cut,) = here.told.of(e.Interrupted)
        assert cut.partial.startswith(whole[:50])
        assert cut.partial.endswith(whole[-50:])
        assert len(cut.partial) < 200
    written(here)
