"""Disturbed at every point, the references hold; and what would not hold is found."""

import asyncio
import functools
import itertools

import msgspec
import pytest
from deadline import DEADLINE_S
from rehearsing import recorded
from support.dialects import DIALECTS, problems_in
from support.reference import reference, references
from support.stage import Reference

from midstream.core.conversation import Message, ToolCall
from midstream.core.decide import steering, transitions
from midstream.core.decide.steering import OUTCOMES
from midstream.core.decide.transaction import Story
from midstream.core.events import InputDisposed, QuestionAsked, StateTransition, ToolReturned
from midstream.core.run import Run
from midstream.rehearsal.comparison import fits_all
from midstream.rehearsal.disturb_everywhere import Tried, everywhere, table
from midstream.rehearsal.fake_world import FakeWorld
from midstream.rehearsal.invariants import broken_by, results_in
from midstream.rehearsal.playback import Play, Point, point_named
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ModelRequest


async def disturbed(reference: Reference, **more: object) -> list[Tried]:
    rehearsal = await recorded(reference)
    async with asyncio.timeout(DEADLINE_S):
        return await everywhere(
            rehearsal,
            reference.definition,
            reference.handlers,
            **more,  # type: ignore[arg-type]
        )


def broken_words(tried: list[Tried]) -> str:
    return "\n".join(f"{each.point}: {words}" for each in tried for words in each.broken)


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_a_reference_holds_wherever_it_is_disturbed(reference: Reference) -> None:
    tried = await disturbed(reference, pairs=20)
    assert broken_words(tried) == ""
    assert sum(each.point.then is not None for each in tried) == 20
    assert {each.point.kind for each in tried} - {"aside"} == {"interrupt", "kill", "both"}
    assert {each.point.moment for each in tried} == {"lost", "kept", "flying"}


async def test_every_append_and_every_wait_is_a_point() -> None:
    tried = await disturbed(reference("question"))
    kills = [each.point for each in tried if each.point.kind == "kill"]
    found = {
        moment: [point.seq for point in kills if point.moment == moment]
        for moment in ("lost", "kept", "flying")
    }
    # What one input makes true is kept at once: started (2), asked the person (5), told the answer
    # (9), ended (13). What follows the first three is waited for.
    assert found["kept"] == found["lost"] == [2, 5, 9, 13]
    assert found["flying"] == [2, 5, 9]


async def test_one_point_is_played_alone_by_its_name() -> None:
    tried = await disturbed(reference("question"), only=point_named("interrupt:5:flying"))
    assert [str(each.point) for each in tried] == ["interrupt:5:flying"]
    assert tried[0].broken == ()


async def test_two_disturbances_are_drawn_the_same_each_time_and_told_by_their_name() -> None:
    tried = await disturbed(reference("question"), pairs=6, seed=2)
    pairs = [each.point for each in tried if each.point.then is not None]
    again = await disturbed(reference("question"), pairs=6, seed=2)
    assert pairs == [each.point for each in again if each.point.then is not None]
    (alone,) = await disturbed(reference("question"), only=point_named(str(pairs[0])))
    assert (alone.point, alone.broken) == (pairs[0], ())


async def test_a_second_disturbance_that_is_not_reached_is_broken_not_held() -> None:
    (tried,) = await disturbed(reference("line"), only=point_named("kill:4+kill:99"))
    assert tried.broken == ("the point was not reached",)


async def test_words_are_taken_while_a_run_that_was_killed_is_taken_up() -> None:
    for name in ("kill:5:flying+interrupt:1", "interrupt:5:flying+interrupt:1:flying"):
        (tried,) = await disturbed(reference("question"), only=point_named(name))
        assert (tried.broken, tried.end) == ((), "finished")


async def test_a_point_that_is_not_there_is_broken_not_held() -> None:
    tried = await disturbed(reference("line"), only=point_named("kill:999"))
    assert tried[0].broken == ("the point was not reached",)


def test_the_table_counts_by_kind_and_names_what_replays_a_failure() -> None:
    held = Tried(point=point_named("kill:1"), broken=(), end="finished")
    broke = Tried(point=point_named("interrupt:2:flying"), broken=("it hung",), end="running")
    assert table([held, broke]).splitlines() == [
        "            tried   held broken",
        "interrupt       1      0      1",
        "kill            1      1      0",
        "--point interrupt:2:flying: it hung",
    ]


REPEATABLE = (
    "line",
    "two questions",
    "waiting for times",
    "three branches",
    "for each",
    "sub-workflow",
    "branches in a branch",
    "a sub-workflow for each",
    "approvals in branches",
)
"""References in which all that comes from outside follows from what is asked, whenever it is."""


@pytest.mark.parametrize("name", REPEATABLE)
async def test_a_run_that_was_killed_ends_as_it_would_have(name: str) -> None:
    known = reference(name)
    rehearsal = await recorded(known)

    async def played(point: Point | None) -> Play:
        fake = FakeWorld(known.definition, known.handlers, fits_all)
        play = Play(rehearsal, fake, point)
        async with asyncio.timeout(DEADLINE_S):
            await play.play()
        return play

    base = await played(None)
    wanted = left_by(base)
    for point in base.points(["kill"]):
        play = await played(point)
        asked = [fact for fact in play.facts() if isinstance(fact, QuestionAsked)]
        if not any(fact.choices == tuple(OUTCOMES) for fact in asked):
            assert left_by(play) == wanted, point


def left_by(play: Play) -> dict[str, object]:
    """Return what is left of a playing: its end, its data and talks, and the ways through it.

    Left out is what was kept of a reply that a kill cut.
    """
    run = play.driver.fake.notebook.folded()
    ways: dict[str, list[str]] = {}
    for fact in play.facts():
        if isinstance(fact, StateTransition):
            ways.setdefault(fact.branch, []).append(fact.target)
    left = {name: getattr(run, name) for name in ("status", "output", "common_data")}
    talks = {
        name: [message for message in messages if not message.interrupted]
        for name, messages in run.contexts.items()
    }
    return {**left, "contexts": talks, "ways": ways}


# --- each invariant can be broken -------------------------------------------------------------


async def test_a_once_call_made_again_after_a_crash_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steering, "ask_outcome", lambda story, agent, call: None)
    found = broken_words(await disturbed(reference("line"), kinds=("kill",)))
    assert "the once call call_1 was made 2 times" in found


async def test_a_line_that_is_never_disposed_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = Story.tell

    def forgetful(story: Story, fact: object) -> None:
        if not isinstance(fact, InputDisposed):
            tell(story, fact)  # type: ignore[arg-type]

    rehearsal = await recorded(reference("line"))
    monkeypatch.setattr(Story, "tell", forgetful)
    line = reference("line")
    tried = await everywhere(rehearsal, line.definition, line.handlers, kinds=("interrupt",))
    assert "the input injected has no disposition" in broken_words(tried)


async def test_a_halt_that_leads_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "resume_target", lambda run: "end")
    found = broken_words(await disturbed(reference("line"), kinds=("interrupt",)))
    assert "the halt of epoch 1 led to 'end'" in found


async def test_a_script_that_does_something_else_each_time_is_found() -> None:
    times = itertools.count()

    def moody(run: HandlerRun) -> None:
        run.common_data["mood"] = next(times)

    line = msgspec.structs.replace(reference("line"), handlers=ScriptHandlers({"note": moody}))
    found = broken_words(await disturbed(line, kinds=("kill",)))
    assert "the facts before the disturbance are not those of the undisturbed run" in found


async def test_a_script_that_cannot_be_interrupted_is_found() -> None:
    def fragile(run: HandlerRun) -> None:
        if run.resume_input:
            raise ValueError("not while I work")

    line = reference("line")
    fragile_line = msgspec.structs.replace(line, handlers=ScriptHandlers({"note": fragile}))
    found = broken_words(await disturbed(fragile_line, kinds=("interrupt",)))
    assert "the run failed in note: The handler note raised ValueError" in found
    assert await disturbed(fragile_line, kinds=("kill",)) != []


def test_a_call_without_its_result_is_found() -> None:
    look = ToolCall(id="call_1", name="look", arguments={})
    message = Message(role="assistant", text="", author="worker", calls=(look,))
    request = ModelRequest(agent="worker", system="", messages=(message,), state="start")
    assert list(broken_by(Run(id="r"), [], [request], {})) == [
        "request 1 (worker in start) has results for none where the calls are ['call_1']"
    ]


def test_a_call_with_two_results_is_found() -> None:
    twice = [ToolReturned(call_id="call_1", name="look", outcome="completed", result="ok")] * 2
    assert list(results_in(twice)) == ["the call call_1 has 2 results"]


# --- what models are sent ---------------------------------------------------------------------


@functools.cache
def refusals(body: bytes) -> tuple[str, ...]:
    request = msgspec.json.decode(body, type=ModelRequest)
    return tuple(why for dialect in DIALECTS for why in problems_in(request, dialect))


def refused(request: ModelRequest) -> tuple[str, ...]:
    plain = msgspec.structs.replace(request, common_data={}, visit=1, request=1)
    return refusals(msgspec.json.encode(plain))


@pytest.mark.parametrize("name", ["parallel tool calls", "two questions", "soft stop"])
async def test_every_provider_takes_what_a_disturbed_run_sends(name: str) -> None:
    assert broken_words(await disturbed(reference(name), refused=refused)) == ""


async def test_a_request_a_provider_refuses_is_found() -> None:
    tried = await disturbed(
        reference("question"), refused=lambda request: ["400"], only=point_named("kill:2")
    )
    assert "400" in broken_words(tried)
