"""Runs within a run: parallel branches, a branch for each item, sub-workflows."""

from typing import Any

from machine_kit import begin, end, flow, rounds, running, scene

from midstream.core import events as e
from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import Gate, Scripted, asks, says

STOP: dict[str, Json] = {"name": "stop", "input": "common_data.out"}
THREE = ["structure", "spots", "tests"]


def state(name: str, **fields: Any) -> dict[str, Json]:
    return {"name": name, **fields}


def reviewers(**fields: Any) -> dict[str, Json]:
    return flow(
        state("start", parallel=THREE, save_as="found", next="sum", **fields),
        *(state(name, agent="dude", prompt=f"Look at {name}.", save_as=name) for name in THREE),
        state("sum", agent="dude", prompt="${common_data.found}", save_as="out"),
        state("resume", agent="critic", next="$interrupted"),
        STOP,
    )


def plays(lines: dict[str, Any], times: int = 12) -> list[Any]:
    """Return a script that answers each request by its state; a list: one line after the other."""

    def reply(request: ModelRequest) -> Scripted:
        line = lines[request.state]
        found: Scripted = line.pop(0) if isinstance(line, list) else line
        return found

    return [reply] * times


ALL: dict[str, Any] = {
    "structure": says("layers"),
    "spots": says("one"),
    "tests": says("few"),
    "sum": says("Summed up."),
    "resume": says("I will."),
}


async def test_branches_run_at_once_and_join_by_name() -> None:
    gate = Gate()
    lines = {**ALL, "spots": says("one", gate=gate)}
    async with running(reviewers(), *plays(lines), input="tidy") as here:
        await gate.reached()
        await rounds()
        assert [b.status for b in here.run.visit.branches.values()] == [
            "finished",
            "running",
            "finished",
        ]
        gate.open()
        run = await end(here)

        assert run.output == "Summed up."
        assert run.common_data["found"] == {"structure": "layers", "spots": "one", "tests": "few"}
        assert run.common_data["spots"] == "one", "what a branch wrote is merged"
        assert [m.text for m in run.contexts["talk"]] == [
            '{"structure":"layers","spots":"one","tests":"few"}',
            "Summed up.",
        ]


async def test_the_first_branches_are_enough() -> None:
    gate = Gate()
    lines = {**ALL, "spots": says("one", gate=gate)}
    async with running(reviewers(join=2), *plays(lines), input="tidy") as here:
        run = await end(here)

        assert run.common_data["found"] == {"structure": "layers", "tests": "few"}
        assert len(here.told.of(e.BranchStopped)) == 1


async def test_words_halt_every_branch_and_they_go_on_where_they_were() -> None:
    gates = [Gate(), Gate()]
    lines = {
        **ALL,
        "structure": [says("lay", gate=gates[0]), says("layers")],
        "spots": [says("o", gate=gates[1], after=1), says("one")],
    }
    async with running(reviewers(), *plays(lines), input="tidy") as here:
        for gate in gates:
            await gate.reached()
        await rounds()
        await here.machine.say("hurry")
        run = await end(here)

        assert run.status == "finished", run.error
        assert run.common_data["found"]["structure"] == "layers"
        assert run.common_data["found"]["tests"] == "few"
        assert [d.disposition for d in here.told.of(e.InputDisposed)] == ["interrupted"]
        asked = [r.state for r in here.model.requests]
        assert asked.count("tests") == 1, "a branch that is done is not run again"
        assert len(here.told.of(e.BranchStarted)) == 3


async def test_a_question_in_one_branch_stops_no_other() -> None:
    lines = {**ALL, "spots": [asks("Which files?"), says("one")]}
    async with running(reviewers(), *plays(lines), input="tidy") as here:
        run = await here.machine.settled()
        (question,) = run.inbox.open_questions
        assert question.branch == "spots"
        assert run.visit.branches["tests"].status == "finished"
        await here.machine.say("src", question=question.id)
        run = await end(here)

        assert run.output == "Summed up."


async def test_words_can_be_addressed_to_one_branch() -> None:
    gates = [Gate(), Gate()]
    lines = {
        **ALL,
        "structure": says("lay", gate=gates[0]),
        "spots": [says("o", gate=gates[1]), says("one in src")],
    }
    async with running(reviewers(), *plays(lines), input="tidy") as here:
        for gate in gates:
            await gate.reached()
        await here.machine.say("@spots only src")
        await rounds()
        assert here.run.visit.phase == "branches"
        assert [i.branch for i in here.told.of(e.Interrupted)] == ["spots"]
        gates[0].open()
        run = await end(here)

        assert run.common_data["found"]["spots"] == "one in src"
        assert run.common_data["found"]["structure"] == "lay"
        assert [d.disposition for d in here.told.of(e.InputDisposed)] == ["interrupted"]


async def test_a_branch_for_each_item_few_at_once() -> None:
    workflow = flow(
        state(
            "start",
            for_each={"items": "input", "state": "one", "max_concurrency": 2},
            save_as="out",
        ),
        state("one", agent="dude", prompt="${variables.index}: ${input.name}"),
        STOP,
        input={"name": "files", "type": "array"},
    )
    gate = Gate()
    lines = {"one": [says("A", gate=gate), says("B"), says("C")]}
    async with scene(workflow, *plays(lines)) as here:
        await begin(here, [{"name": "a"}, {"name": "b"}, {"name": "c"}])
        await gate.reached()
        await rounds()
        assert len(here.run.visit.branches) == 3, "as one is done the next begins"
        gate.open()
        run = await end(here)

        assert run.output == ["A", "B", "C"]


async def test_a_branch_that_fails_fails_the_state() -> None:
    lines = {**ALL, "spots": Scripted(error=WorldTrouble("The model is down."))}
    async with running(
        reviewers(catch=[{"on": ["branch"], "to": "sum", "save_as": "found"}]),
        *plays(lines),
        input="tidy",
    ) as here:
        run = await end(here)

        assert run.status == "finished"
        assert "The model is down." in run.common_data["found"]["error"]


async def test_branches_may_share_a_context() -> None:
    workflow = flow(
        state(
            "start",
            parallel=[
                {
                    "name": "left",
                    "states": [state("l", agent="dude", prompt="L")],
                    "shared": ["talk"],
                },
                {"name": "right", "states": [state("r", agent="dude", prompt="R")]},
            ],
        ),
        STOP,
    )
    async with running(
        workflow, *plays({"l": says("left"), "r": says("right")}), input="go"
    ) as here:
        run = await end(here)

        assert [m.text for m in run.contexts["talk"]] == ["L", "left"]
