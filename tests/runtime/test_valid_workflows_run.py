"""A workflow the validator takes never fails while it runs for a reason the validator promises to find.

Workflows of any shape run among fakes: a model that says what it must, tools that return something, a
clock that jumps, a person who answers at once. A run may fail in many ways. These must not be among
them, and none may be a bug of ours.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from hypothesis import HealthCheck, event, given, settings
from random_workflows import HANDLERS, INNER, ROLES, TOOLS, WORK, every_key, keys_of, workflows

from midstream.core import events as e
from midstream.core.inputs import RequestedCall
from midstream.core.pending import AwaitTime, pending
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.names import Json
from midstream.language.problem import Problem
from midstream.language.spec import Definition, Workflow
from midstream.models.offline import smallest
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    JumpingClock,
    Scripted,
    ScriptedModel,
    fake_world,
)

ACTS = 60
"""Things the person and the clock do before the run is stopped: it may well go round for ever."""

PROMISED = {
    "a state that is not there": r"a state the workflow does not have",
    "a tool that is not there": r"There is no tool",
    "a handler that is not there": r"has no handler",
    "a context that is not there": r"a context",
    "a template that does not parse": r"does not begin with a name|is not closed|is no path|\"\$\{\}\" is",
    "a variable that is not there": r"no value at \$\{variables\.\w+\}",
    "a list that is none": r"goes through variables\.[\w ]+: no list",
    "a time that is none": r"waits until '(soon|2024-02-30|2024-01-01'|)",
    "an expression that does not parse": r"Python cannot read|no (name|function) \"|is no path",
    "branches without end": r"would begin a branch within",
    "a failure of a script nobody wrote": r"raised ",
}
"""What a run must not fail with, by what the validator promises to find."""

QUIET = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
"""Each time the same workflows."""

IDLE = "transitions in a row"

WARNED = {
    "writ": r"no value at \$\{common_data\.(one|two|many)\}",
    "no state to go back to before anything": r"no interrupted state is left",
}
"""What it must not fail with where the validator has not warned of it, by a word of the warning."""


async def touch(run: HandlerRun) -> None:
    run.common_data["many"] = ["x"]


async def tell(run: HandlerRun) -> None:
    run.log(f"in {run.state}")


async def choose(run: HandlerRun) -> str | None:
    return "stop" if run.common_data.get("many") else None


SCRIPT = ScriptHandlers({"touch": touch, "tell": tell, "choose": choose})


def linted(data: dict[str, Json]) -> tuple[Workflow | None, tuple[Problem, ...]]:
    known = Known(
        roles=ROLES,
        handlers=HANDLERS,
        tools=tools().specs(),
        script_file="script.py",
        workflows=["inner"],
        own_name="random",
    )
    text = f"// drawn\n{json.dumps(data)[:-1]},}} /* all of it */"
    return lint_workflow(text, known, file="random.json")


def tools() -> FakeTools:
    return FakeTools(
        FakeTool(name="look", answer='{"found": ["x"]}'),
        FakeTool(name="record", answer="kept", effect="once"),
        FakeTool(name="deploy", answer="done", effect="once", needs_approval=True),
    )


def definition_of(workflow: Workflow) -> Definition:
    specs = tools().specs()
    inner = msgspec.convert(INNER, Workflow)
    return Definition(
        workflow=workflow,
        roles=ROLES,
        tools=specs,
        workflows={"inner": Definition(workflow=inner, roles=ROLES, tools=specs)},
    )


def reply(request: ModelRequest) -> Scripted:
    if request.visit % 4 == 3:
        return Scripted(error=OSError("no line"))
    if not request.must_call and request.visit % 3 == 2 and request.request == 1:
        called = [RequestedCall(name=name, arguments={"key": request.state}) for name in TOOLS]
        return Scripted(calls=tuple(called))
    if not request.must_call:
        return Scripted(pieces=("x",))
    tool = request.tools[-1]
    usage = e.Usage(model="m", input_tokens=60, output_tokens=9)
    value = smallest(tool.parameters)
    arguments = value if isinstance(value, dict) else {}
    return Scripted(calls=(RequestedCall(name=tool.name, arguments=arguments),), usage=usage)


async def played(workflow: Workflow) -> tuple[Run, list[e.AnyFact]]:
    """Return a run of a workflow, and its facts: ended, or stopped after so many acts."""
    story, clock = Chronicle(), JumpingClock()
    world = fake_world(ScriptedModel(reply), tools=tools(), clock=clock)
    machine = WorkflowStateMachine(
        definition_of(workflow), world, handlers=SCRIPT.around({"inner": SCRIPT}), tap=story
    )
    async with asyncio.timeout(DEADLINE_S):
        is_asked = workflow.start_condition == "on_user_input"
        await machine.start(None if is_asked else ["a", "b"])
        for _ in range(ACTS):
            is_quiet = await _is_quiet(machine, clock)
            if machine.run.is_over or not is_quiet:
                break
            await _act(machine, clock)
        await machine.stop("enough")
    facts: list[Any] = [told.event for told in story.events if told.seq is not None]
    return machine.run, facts


async def _is_quiet(machine: WorkflowStateMachine, clock: JumpingClock) -> bool:
    """Let happen what needs neither a person nor time; False: it goes on and on."""
    for _ in range(2000):
        owed = pending(machine.run)
        waits = [each for each in owed if isinstance(each, AwaitTime) and each.until is not None]
        if machine.run.is_over or (len(waits) == len(owed) and clock.sleepers() >= len(waits)):
            return True
        await asyncio.sleep(0)
    return False


async def _act(machine: WorkflowStateMachine, clock: JumpingClock) -> None:
    run = machine.run
    times = [each.until for each in pending(run) if isinstance(each, AwaitTime)]
    is_late = bool(times) and len(run.inbox.questions) % 2 == 0
    if run.inbox.open_questions and not is_late:
        question = run.inbox.open_questions[0]
        if question.kind == "approval":
            await machine.approve(question.id, Decision(granted=True))
            return
        said = question.choices[0] if question.choices else '["x"]'
        if question.schema is not None:
            said = json.dumps(smallest(question.schema))
        await machine.say(said, question=question.id)
        return
    assert times, f"nothing could move the run on: {run.visit.phase} in {run.visit.state}"
    clock.jump(max(0.0, min(until for until in times if until is not None) - clock.now()))


def reasons(run: Run, facts: list[e.AnyFact]) -> Iterator[str]:
    """Yield what went wrong in a run, whether it was caught or not."""
    yield run.error
    for fact in facts:
        if isinstance(fact, e.StateFailed | e.BranchFailed | e.RunFailed):
            yield f"{fact.error} {fact.hint}"


def deciding(data: Json) -> set[str]:
    """Return the names of the states that go on as an expression says, wherever they stand."""
    inside = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(inside, list):
        return set()
    found = {name for each in inside for name in deciding(each)}
    ways = data.get("transitions") if isinstance(data, dict) else None
    if isinstance(data, dict) and isinstance(ways, list) and any("when" in way for way in ways):
        found.add(data["name"])
    return found


def turns_idly(facts: list[e.AnyFact], decides: set[str]) -> bool:
    """Return whether a run failed in a circle in which nothing was decided on."""
    ends = [f for f in facts if isinstance(f, e.RunFailed | e.BranchFailed) and IDLE in f.error]
    for end in ends:
        ways = [f for f in facts if isinstance(f, e.StateTransition) and f.branch == end.branch]
        is_plain = all(way.reason in ("next", "transition") for way in ways[-100:])
        if is_plain and not decides & {way.source for way in ways[-100:]}:
            return True
    return False


def are_endless(problems: tuple[Problem, ...]) -> bool:
    """Return whether the validator has warned of branches that come back to where they branch."""
    return any("branch again" in problem.message for problem in problems)


@pytest.mark.parametrize("is_wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("kind", WORK)
def test_what_the_validator_takes_does_not_fail_for_what_it_promises_to_find(
    kind: str, is_wrong: bool
) -> None:
    @settings(QUIET, max_examples=80 if is_wrong else 25)
    @given(workflows(kind, is_wrong=is_wrong))
    def holds(data: dict[str, Json]) -> None:
        workflow, problems = linted(data)
        if workflow is None:
            event("refused")
            return
        if are_endless(problems):
            event("taken with a warning: branches without end")  # bounded, but very many
            return
        run, facts = asyncio.run(played(workflow))
        event(f"taken: {run.status}")
        bugs = [
            fact
            for fact in facts
            if isinstance(fact, e.RunFailed | e.BranchFailed) and fact.fault == "bug"
        ]
        assert not bugs
        assert run.is_over
        assert not turns_idly(facts, deciding(data))
        for reason in reasons(run, facts):
            for promise, pattern in PROMISED.items():
                assert not re.search(pattern, reason), f"{promise}: {reason}"
            for warning, pattern in WARNED.items():
                is_warned = any(warning in problem.message for problem in problems)
                # What its handlers write only a script knows.
                is_theirs = warning == "writ" and "_handler" in json.dumps(data)
                assert is_warned or is_theirs or not re.search(pattern, reason), reason

    holds()


def keys_run(kind: str) -> set[str]:
    """Return the keys of the workflows above that run."""
    seen: set[str] = set()

    @settings(QUIET, max_examples=25)
    @given(workflows(kind, is_wrong=False))
    def look(data: dict[str, Json]) -> None:
        workflow, problems = linted(data)
        if workflow is not None and not are_endless(problems):
            seen.update(keys_of(data))

    look()
    return seen


def test_the_workflows_that_run_have_every_key_in_every_form() -> None:
    assert every_key() - set().union(*map(keys_run, WORK)) == set()
