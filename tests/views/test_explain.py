"""A workflow in words."""

from typing import Any

import msgspec
import pytest

from midstream.language.spec import Definition, State, Workflow
from midstream.views.cells import width_of
from midstream.views.workflow_in_words import (
    Explanation,
    does,
    explained,
    explanation_text,
    on_words,
)


def explanation(states: list[dict[str, Any]], **more: Any) -> Explanation:
    plain = {"workflow_name": "w", "states": [*states, {"name": "stop"}], **more}
    return explained(Definition(workflow=msgspec.convert(plain, Workflow), roles={}))


def state(**given: Any) -> State:
    return msgspec.convert({"name": "s", **given}, State)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Nothing; it only goes to the next state."),
        ({"agent": "dude"}, "The agent dude has its turn."),
        (
            {"agent": "dude", "prompt": "p", "output_schema": {"type": "object"}},
            "The agent dude has its turn, told by the prompt, and answers in a given form.",
        ),
        (
            {"agent": "dude", "awaits_input": True, "pre_handler": "a", "transition_handler": "b"},
            "Waits for a line of yours. Runs a. The agent dude has its turn. Then runs b.",
        ),
        (
            {"tool": "run", "arguments": {"path": "."}, "save_as": "x"},
            "Calls the tool run with path; no model is asked. Saves the result in x.",
        ),
        (
            {"ask": "Which?"},
            'Asks you: "Which?" It waits for the answer as long as it takes.',
        ),
        (
            {
                "ask": {
                    "question": "Which?",
                    "choices": ["a", "b"],
                    "deadline_s": 5,
                    "on_timeout": "default",
                    "default": "a",
                }
            },
            'Asks you: "Which?" (a / b) Without one in 5 s, "a" is used instead.',
        ),
        ({"wait": 90}, "Waits 1.5 min."),
        ({"wait": {"until": "${input}"}}, "Waits until ${input}."),
        ({"parallel": ["a", "b"]}, "2 branches at once, all must end."),
        (
            {"parallel": [{"name": "a", "worktree": True}]},
            "1 branches at once (git worktrees), all must end.",
        ),
        (
            {"for_each": {"items": "input", "state": "a"}, "join": 2},
            "For each of input, 4 at once, 2 must end.",
        ),
        ({"workflow": "sub"}, "Runs the workflow sub."),
        ({"pre_handler": "a", "transition_handler": "b"}, "Runs a. Runs b."),
        (
            {
                "description": "it tries",
                "retry": {"max_attempts": 2},
                "timeout_s": 30,
                "max_visits": 1,
                "budget": {"usd": 0.5, "tool_calls": 3},
            },
            "It tries. Tried up to 2 times. At most 30 s. Entered at most once. "
            "Budget: $0.5, 3 tool calls.",
        ),
    ],
)
def test_a_state_is_said_in_sentences(given: dict[str, Any], said: str) -> None:
    assert does(state(**given)) == said


@pytest.mark.parametrize(
    ("given", "policy", "resume", "said"),
    [
        ({}, "interrupt", "resume", "interrupt it; it goes to resume"),
        ({"resume": "other"}, "interrupt", "resume", "interrupt it; it goes to other"),
        (
            {"resume": "$interrupted"},
            "queue",
            "x",
            "wait until it is done; then it goes back where it was cut",
        ),
        ({}, "steer", "x", "join the next request"),
        ({"on_input": "reject"}, "interrupt", "x", "are refused"),
        ({"ask": "?"}, "interrupt", "x", "answer it"),
        ({"awaits_input": True}, "reject", "x", "are what it waits for; then are refused"),
        ({"parallel": ["a"]}, "reject", "x", "are refused; @NAME TEXT is for one branch alone"),
        ({}, "interrupt", "", "interrupt it; it begins again"),
    ],
)
def test_it_says_what_words_do_in_a_state(
    given: dict[str, Any], policy: Any, resume: str, said: str
) -> None:
    assert on_words(state(**given), policy, resume) == said


def test_it_says_what_starts_a_workflow() -> None:
    found = explanation(
        [{"name": "start"}],
        start_condition="on_user_input",
        input={"name": "topic", "description": "What about?"},
        variables={"rounds": 3},
    )

    assert found.starts == (
        "`midstream run w [TOPIC]`, or `/workflow w [TOPIC]` in the console.",
        "Its input is topic (string): What about?",
        "Without an input it waits for one: your first line.",
        "`--set NAME=VALUE` changes its variables: rounds = 3.",
    )


def test_counted_visits_bound_a_circle() -> None:
    out = {"when": "visits.again >= 3", "to": "stop"}
    found = explanation(
        [
            {"name": "start", "agent": "dude", "next": "again"},
            {"name": "again", "tool": "t", "transitions": [out, {"to": "start"}]},
            {"name": "stop"},
        ],
    )

    assert not any("bounds how often" in line for line in found.stops)


def test_it_says_what_can_stop_a_workflow() -> None:
    found = explanation(
        [
            {"name": "start", "agent": "dude", "next": "again"},
            {"name": "again", "tool": "t", "next": "start"},
        ],
    )

    assert found.stops == (
        "It never ends by itself.",
        "The run fails if the turn of start does, such as without a network.",
        "The run fails if the work of again does.",
        "Nothing in the file bounds how often it goes round through start or again: "
        "no max_visits, no budget.",
        "You: Esc (or /stop) halts it until your next words, `midstream stop RUN` ends it.",
    )


def test_a_branch_that_ends_is_not_the_end_and_a_catch_counts_for_its_own_kinds() -> None:
    found = explanation(
        [
            {"name": "start", "parallel": ["look"], "next": "sum"},
            {"name": "look", "agent": "dude"},
            {
                "name": "sum",
                "agent": "dude",
                "max_visits": 9,
                "catch": [{"on": ["max_visits"], "to": "stop"}],
            },
            {"name": "safe", "agent": "dude", "catch": [{"to": "stop"}]},
        ],
    )

    assert found.stops[0] == "It ends by itself after sum."
    assert (
        "The run fails if the turn of look or sum does, such as without a network." in found.stops
    )
    assert "The run fails if the work of start does." in found.stops


@pytest.mark.parametrize("bound", [{"max_visits": 3}, {}])
def test_a_bound_is_a_bound(bound: dict[str, Any]) -> None:
    more = {} if bound else {"budget": {"usd": 1}}
    states = [{"name": "start", "next": "again"}, {"name": "again", "next": "start", **bound}]

    assert not any("Nothing in the file" in said for said in explanation(states, **more).stops)


def test_states_of_branches_are_said_under_their_place() -> None:
    inner = [{"name": "look", "agent": "dude"}]
    found = explanation([{"name": "start", "parallel": [{"name": "tests", "states": inner}]}])

    assert [each.name for each in found.states] == ["start", "start/tests/look"]


BOTH: list[dict[str, Any]] = [
    {"name": "start", "agent": "dude", "transitions": [{"when": "last.text == ''", "to": "start"}]},
]


def test_it_is_a_table_where_there_is_room() -> None:
    text = explanation_text(explanation(BOTH), width=80)

    assert (
        "state  what it does                 then                   your words\n"
        "─────  ───────────────────────────  ─────────────────────  ─────────────────────\n"
        "start  The agent dude has its       → itself when          interrupt it; it goes\n"
        "       turn.                          last.text == ''      to start\n"
        "                                    → stop (otherwise)\n"
    ) in text


@pytest.mark.parametrize("width", [30, 40, 72, 80, 100])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    states = [*BOTH, {"name": "検査" * 20, "agent": "dude", "description": "words " * 30}]
    lines = explanation_text(explanation(states), width=width).splitlines()

    assert max(map(width_of, lines)) <= width
