"""What was spent, as tables of any width, and what is left of a budget."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from midstream.core.costs import dollars, in_words
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    AnyFact,
    CompactionEnded,
    Interrupted,
    ReplyCut,
    ReplyShown,
    Usage,
    WorkflowOutput,
)
from midstream.core.notices import Envelope
from midstream.core.run import Run, RunUsage
from midstream.language.spec import Budget, Definition, Workflow
from midstream.views.cells import width_of
from midstream.views.listing import Summary, summarised
from midstream.views.spending import (
    Spent,
    budget_lines,
    estimated_words,
    grouped,
    price,
    spent_in,
    table,
    total_of,
    unpriced_words,
)


def spent(agent: str, model: str, usd: str | None, *, run: str = "ab12cd34") -> Spent:
    usage = Usage(model=model, input_tokens=1_200, output_tokens=340, cost_usd=usd)
    return Spent(run=run, name="role:dude", agent=agent, at=1.0, usage=usage)


SOME = [
    spent("dude", "openai:gpt-5.6-terra", "0.0123"),
    spent("dude", "openai:gpt-5.6-terra", "0.0100"),
    spent("reviewer", "local:mine", None),
]


def by_all(each: Spent) -> tuple[str, ...]:
    return (f"{each.run} {each.name}", each.agent, each.usage.model)


def test_requests_are_summed_up_by_what_they_have_in_common() -> None:
    rows = grouped(SOME, lambda each: (each.agent,))

    assert [row.labels for row in rows] == [("dude",), ("reviewer",)]
    assert [price(row.cost) for row in rows] == ["$0.0223", "unknown"]
    assert price(total_of(SOME)) == "at least $0.0223"
    assert unpriced_words(total_of(SOME)) == "1 request has no known price and is not included."
    assert unpriced_words(total_of(SOME[:2])) == ""


def test_what_was_cut_off_counts_and_is_marked_as_a_guess() -> None:
    usage = msgspec.structs.replace(SOME[0].usage, is_estimate=True)
    facts: list[AnyFact] = [
        Interrupted(epoch=1, text=None, agent="dude", usage=usage),
        ReplyShown(agent="dude", text="Once", so_far=usage),
        ReplyCut(agent="dude", partial="Once", usage=usage),
        AgentFailed(agent="dude", error="lost"),
        AgentResponded(agent="dude", text="Once", usage=SOME[1].usage),
    ]
    told = [Envelope(run="r", seq=n, at=1.0, event=fact) for n, fact in enumerate(facts)]
    total = total_of(spent_in(told, name="role:dude"))

    assert (total.requests, total.estimated) == (3, 2)
    assert (price(total), in_words(total)) == ("~$0.0346", "~$0.0346")
    assert estimated_words(total) == "~ 2 requests were cut off: what they used is an estimate."
    rows = grouped(spent_in(told, name=""), lambda each: (each.agent,))
    assert table(("agent",), rows, width=80)[1].split() == [
        "dude",
        "3",
        "~3.6k",
        "~1.0k",
        "~$0.0346",
    ]
    assert summarised(Summary(), told[0]).estimated == 1


def test_a_table_stands_in_columns_where_it_fits() -> None:
    rows = grouped(SOME, by_all)

    assert table(("run", "agent", "model"), rows, width=100, total=total_of(SOME)) == [
        "run                 agent     model                 requests    in   out              cost",
        "ab12cd34 role:dude  dude      openai:gpt-5.6-terra         2  2.4k   680           $0.0223",
        "                    reviewer  local:mine                   1  1.2k   340           unknown",
        "total                                                      3  3.6k  1.0k  at least $0.0223",
    ]


def test_where_it_does_not_fit_the_figures_stand_below() -> None:
    assert table(("run", "agent", "model"), grouped(SOME, by_all), width=38) == [
        "ab12cd34 role:dude · dude · openai:gp…",
        "  2 req  2.4k in  680 out  $0.0223",
        "ab12cd34 role:dude · reviewer · local…",
        "  1 req  1.2k in  340 out  unknown",
    ]


def from_cache(each: Spent) -> Spent:
    usage = msgspec.structs.replace(each.usage, cached_tokens=1_000)
    return msgspec.structs.replace(each, usage=usage)


def test_what_came_from_the_cache_has_a_column_where_anything_did() -> None:
    rows = grouped([from_cache(SOME[0]), SOME[2]], lambda each: (each.agent,))

    assert table(("agent",), rows, width=60) == [
        "agent     requests    in  from cache  out     cost",
        "dude             1  1.2k        1.0k  340  $0.0123",
        "reviewer         1  1.2k           0  340  unknown",
    ]
    in_full = grouped([from_cache(SOME[0])], by_all)
    assert table(("run", "agent", "model"), in_full, width=60) == [
        "ab12cd34 role:dude · dude · openai:gpt-5.6-terra",
        "  1 req  1.2k in (1.0k from cache)  340 out  $0.0123",
    ]


@pytest.mark.parametrize("width", [*range(20, 201)])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    many = [*SOME, from_cache(SOME[0]), spent("評者", "x" * 60, "1234.5", run="zz99zz99")]
    lines = table(("run", "agent", "model"), grouped(many, by_all), width=width)

    assert max(map(width_of, lines)) <= width


def test_amounts_read_as_money() -> None:
    amounts = ("0", "0.00001", "0.0123", "1", "1234.567")
    assert [dollars(Decimal(each)) for each in amounts] == [
        "$0.00",
        "<$0.0001",
        "$0.0123",
        "$1.00",
        "$1,234.57",
    ]


def test_every_request_of_the_facts_counts_once() -> None:
    usage = Usage(model="m", input_tokens=1)
    events: list[Any] = [
        AgentResponded(agent="ada", text="", usage=usage),
        AgentResponded(agent="ada", text=""),
        WorkflowOutput(text="hello"),
        CompactionEnded(agent="ada", usage=usage, reason="cut"),
    ]
    facts = [Envelope(run="r", at=float(n), event=e, seq=n) for n, e in enumerate(events, 1)]

    assert [(each.agent, each.at) for each in spent_in(facts, name="w")] == [
        ("ada", 1.0),
        ("ada", 4.0),
    ]


def a_run(**usage: Any) -> Run:
    workflow = msgspec.convert(
        {"workflow_name": "w", "states": [{"name": "start"}], "budget": {"tokens": 10_000}},
        Workflow,
    )
    used = Usage(model="m", input_tokens=1_000, output_tokens=500, cost_usd="0.25")
    return Run(
        id="r",
        definition=Definition(workflow=workflow, roles={}, tools={}),
        usage=RunUsage(requests=(("ada", used),), tool_calls=3, **usage),
    )


def test_what_is_left_of_each_budget_is_told() -> None:
    run = a_run(limits=Budget(usd=1.0, tool_calls=2))

    assert budget_lines(run) == [
        "budget of this run: $0.7500 of $1.00 left, 0 of 2 tool calls left",
        "budget of its workflow: 8.5k of 10k tokens left",
    ]


def test_a_raised_budget_is_as_much_again_and_a_lifted_one_none() -> None:
    limits = Budget(usd=1.0)

    assert budget_lines(a_run(limits=limits, budget_times=3))[0] == (
        "budget of this run: $2.75 of $3.00 left"
    )
    assert budget_lines(a_run(limits=limits, budget_times=0)) == [
        "You have lifted the budget of this run: nothing limits it."
    ]
