"""Runs of strangers that would use more here than a person here lets runs use."""

import json
from pathlib import Path

import msgspec
from tables import table
from test_foreign_histories import ENTER, Here

from midstream.core import events as e
from midstream.core.question import NO_LIMIT
from midstream.core.run import Run
from midstream.language.spec import Budget
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import take_up
from midstream.runtime.engine.time_travel import fork

OWN = Budget(tokens=100, usd=1.0, transitions=20, minutes=5.0)
FLOW = {
    "workflow_name": "circle",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude", "next": "start"}, {"name": "stop"}],
}
AGAIN = e.StateTransition(source="start", target="start", reason="next")
ASKED = e.QuestionAsked(
    question_id="q1",
    number=1,
    kind="question",
    text="The run has used up its budget of $0.01. Go on?",
    choices=("as much again", "no limit", "stop the run"),
    about="budget",
)


def reply(**used: object) -> tuple[e.AnyFact, ...]:
    usage = msgspec.convert({"model": "m", **used}, e.Usage)
    return (e.AgentResponded(agent="dude", text="x", is_final=True, usage=usage), AGAIN)


USED = reply(input_tokens=90, output_tokens=30)
UNLIMITED = e.QuestionAnswered(question_id="q1", answer=NO_LIMIT)
REACHED = e.BudgetReached(state="start", what="x")

STORIES: dict[str, tuple[Budget | None, tuple[e.AnyFact, ...]]] = {
    "no budget at all": (None, USED),
    "a larger budget": (Budget(usd=1e9, tokens=10**12, minutes=1e6), USED),
    "a budget of other things": (Budget(tool_calls=10**9), USED),
    "no limit, as its own person said": (None, (ASKED, REACHED, UNLIMITED, *USED)),
    "its own person's words, said before it was over": (None, (ASKED, UNLIMITED, *USED)),
    "limits that were set here, it says": (None, (e.LimitsSet(limits=None), *USED)),
    "higher limits that were set here, it says": (
        None,
        (e.LimitsSet(limits=Budget(usd=1e9)), *USED),
    ),
    "tokens given back": (None, (*reply(input_tokens=-(10**12)), *USED)),
    "dollars given back": (None, (*reply(cost_usd="-1000000"), *reply(cost_usd="2"))),
    "a price that is no number": (None, (*reply(cost_usd="NaN"), *reply(cost_usd="2"))),
    "a price that is a signalling one": (None, (*reply(cost_usd="sNaN"), *reply(cost_usd="2"))),
    "a price without an end": (None, (*reply(cost_usd="-Infinity"), *reply(cost_usd="2"))),
    "a price that is words": (None, (*reply(cost_usd="free"), *reply(cost_usd="2"))),
    "minutes given back": (None, (e.TimeSpent(seconds=-1e9), e.TimeSpent(seconds=301))),
    "an open question that says it is about a cent": (None, (*USED, ASKED, REACHED)),
}


class LimitedHere(Here):
    """A process in which a person has set a budget."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.engine = LocalEngine(self.engine.world, self.store, limits=OWN)
        where = folder / "config" / "workflows"
        where.mkdir(parents=True)
        (where / "circle.json").write_text(json.dumps(FLOW), encoding="utf-8")

    async def taken_up(self, limits: Budget | None, facts: tuple[e.AnyFact, ...]) -> str:
        definition, _ = await self.library.load("circle")
        begun = e.RunStarted(
            workflow="circle", definition=definition, limits=limits, workspace=str(self.folder)
        )
        return await self.adopted_fork((begun, ENTER, *facts))

    async def went_on(self, id: str) -> Run:
        machine = await take_up(self.engine, self.library, id, choice="new")
        return await machine.settled()

    def asked(self) -> int:
        """Return how often the model was asked."""
        model = self.engine.world.model
        requests: list[object] = model.requests  # type: ignore[attr-defined]
        return len(requests)


@table("tries", STORIES)
async def test_an_import_uses_no_more_than_runs_may_here(tmp_path: Path, tries: str) -> None:
    here = LimitedHere(tmp_path)
    id = await here.taken_up(*STORIES[tries])

    run = await here.went_on(id)

    assert here.asked() == 0
    assert [question.about for question in run.inbox.open_questions] == ["budget"]
    assert run.inbox.open_questions[0].text != ASKED.text
    assert run.usage.budget_times == 1
    await here.engine.close()


async def test_a_fork_of_a_fork_is_bound_too(tmp_path: Path) -> None:
    here = LimitedHere(tmp_path)
    first = await here.taken_up(None, USED)
    await here.went_on(first)
    early = await fork(here.store, first, 2)
    run = await here.went_on((await fork(here.store, early.id, 2)).id)

    assert run.usage.limits == OWN
    await here.engine.close()


async def test_a_smaller_budget_of_an_import_stays(tmp_path: Path) -> None:
    here = LimitedHere(tmp_path)
    run = await here.went_on(await here.taken_up(Budget(tokens=7, tool_calls=3), USED))

    assert run.usage.limits == msgspec.structs.replace(OWN, tokens=7, tool_calls=3)
    await here.engine.close()


async def test_what_a_person_here_raised_stays_raised(tmp_path: Path) -> None:
    here = LimitedHere(tmp_path)
    id = await here.taken_up(None, USED)
    run = await here.went_on(id)
    machine = here.engine.machine(id)
    assert machine is not None
    await machine.leave()
    again = await here.engine.resume(id)
    await again.say(NO_LIMIT, question=run.inbox.open_questions[0].id)
    await again.leave()
    third = await here.engine.resume(id)

    assert third.run.usage.budget_times == 0
    await here.engine.close()
