"""Views: where a run stands, what it cost, what was said."""

from decimal import Decimal

import pytest
from decide_kit import (
    Step,
    asks,
    call,
    done,
    fails,
    flow,
    go,
    handler,
    replies,
    says,
    state,
    tell,
)

from midstream.core.costs import Cost, costs, in_words
from midstream.core.events import Usage
from midstream.core.inputs import Halt, Stop
from midstream.core.run import Run
from midstream.language.names import Policy
from midstream.views.run_status import asked, doing_of, what_enter_does

FULL = flow(state("start", "dude", awaits_input=True, pre_handler="pre", post_handler="post"))
HELLO: list[Step] = [says("hi"), handler()]


@pytest.mark.parametrize(
    ("steps", "doing", "enter"),
    [
        ([], "waiting for your words", "sends to dude"),
        ([says("hi")], "running start's pre_handler", "interrupts start"),
        (HELLO, "dude is thinking", "interrupts dude"),
        (
            [*HELLO, replies("", call("look"), call("look"), asks("Which?")), done("call_1")],
            "dude is using look",
            "answers #1",
        ),
        (
            [*HELLO, replies("", call("look"), call("shell"), call("look")), done("call_1")],
            "dude is using shell",
            "interrupts dude",
        ),
        (
            [*HELLO, replies("", asks("a?"), asks("b?"), call("write"))],
            "dude is waiting for your answer to #1, your answer to #2",
            "answers #1 or #2",
        ),
        (
            [*HELLO, replies("", call("write"))],
            "dude is waiting for your approval of #1",
            "interrupts dude",
        ),
        (
            [*HELLO, replies("", call("shell")), says("no")],
            "stopping shell",
            "joins the interruption",
        ),
        ([*HELLO, replies("", call("shell")), Stop(reason="bye")], "stopping shell", ""),
        ([*HELLO, Halt()], "stopped here, waiting for your words", "resumes"),
        ([*HELLO, replies("hello")], "running start's post_handler", "interrupts start"),
        ([*HELLO, replies("hello"), handler()], "finished", ""),
        ([*HELLO, fails("500")], "failed: 500", ""),
        ([Stop(reason="bye")], "stopped", ""),
    ],
)
def test_where_says_what_a_run_does_and_what_enter_would_do(
    steps: list[Step], doing: str, enter: str
) -> None:
    run = tell(FULL, *steps)[0]

    assert (doing_of(run), what_enter_does(run)) == (doing, enter)


def test_a_run_that_waits_for_its_input_starts_with_the_line() -> None:
    run, _ = tell(flow(state("start"), start_condition="on_user_input"), input=None)

    assert (doing_of(run), what_enter_does(run)) == ("waiting for your words", "starts w")
    assert doing_of(Run(id="r")) == "not started"


@pytest.mark.parametrize(
    ("policy", "enter"),
    [
        ("steer", "steers dude"),
        ("queue", "waits until start is done"),
        ("reject", ""),
    ],
)
def test_enter_goes_by_the_states_policy(policy: Policy, enter: str) -> None:
    run, _ = tell(flow(state("start", "dude", on_input=policy)))

    assert what_enter_does(run) == enter


def test_the_questions_a_person_sees_are_those_with_a_number() -> None:
    run, _ = tell(FULL)
    assert asked(run) == ()

    run, _ = go(run, *HELLO, replies("", asks("Which?"), asks("Why?")))
    assert [q.number for q in asked(run)] == [1, 2]


# --- costs ------------------------------------------------------------------------------------


def used(model: str, price: str | None, tokens: int = 10) -> Usage:
    return Usage(model=model, input_tokens=tokens, output_tokens=1, cost_usd=price)


def test_costs_are_summed_by_agent_and_model() -> None:
    bought = costs(
        [
            ("dude", used("m", "0.1")),
            ("critic", used("m", "0.2")),
            ("dude", used("m", "0.2", 5)),
            ("dude", used("n", None)),
        ]
    )

    assert list(bought.rows) == [("dude", "m"), ("critic", "m"), ("dude", "n")]
    assert bought.rows["dude", "m"] == Cost(
        requests=2, input_tokens=15, output_tokens=2, usd=Decimal("0.3")
    )
    assert bought.total == Cost(
        requests=4, input_tokens=35, output_tokens=4, usd=Decimal("0.5"), unpriced=1
    )


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ([], "$0.00"),
        (["0.0123"], "$0.0123"),
        (["0.00004"], "<$0.0001"),
        (["1.239"], "$1.24"),
        ([None], "cost unknown"),
        (["0.5", None], "at least $0.5000 (1 unpriced)"),
    ],
)
def test_unknown_prices_are_said_to_be_unknown(prices: list[str | None], words: str) -> None:
    assert in_words(costs(("dude", used("m", price)) for price in prices).total) == words
