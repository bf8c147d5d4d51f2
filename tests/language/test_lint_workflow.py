"""Every problem of a workflow file at once, each where it stands."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.problem import Problem
from midstream.language.spec import Role, State, ToolSpec, Workflow

ROLES = {"dude": Role(), "coder": Role(includedTools=("read_file",), excludedTools=("shel",))}
TOOLS = ("read_files", "shell")
ANYTHING = ToolSpec(name="any", description="Takes anything.", parameters={})
HANDLERS = {"greet": 3, "decide": 9}


def lint(
    text: str, *, has_script: bool = True, tools: tuple[str, ...] | None = None
) -> tuple[Workflow | None, tuple[Problem, ...]]:
    known = Known(
        roles=ROLES,
        handlers=HANDLERS if has_script else None,
        tools=None if tools is None else dict.fromkeys(tools, ANYTHING),
        script_file="w/script.py",
    )
    return lint_workflow(text, known, file="w.json")


def said(text: str, *, has_script: bool = True, tools: tuple[str, ...] | None = None) -> list[str]:
    return [str(problem) for problem in lint(text, has_script=has_script, tools=tools)[1]]


def workflow(*states: str, **parts: str) -> str:
    """Return a workflow file: a line for each part, states from line 6 on."""
    lines = {
        "workflow_name": '"w"',
        "contexts": '[{"name": "main"}]',
        "agents": '[{"agent_role": "dude", "context": "main"}]',
        **parts,
    }
    top = "".join(f'"{key}": {value},\n' for key, value in lines.items())
    listed = ",\n".join(states)
    return f'{{\n{top}"states": [\n{listed}\n]}}'


START = '{"name": "start", "agent": "dude"}'
STOP = '{"name": "stop"}'


def test_a_right_file_becomes_a_workflow_without_problems() -> None:
    found, problems = lint(
        workflow(
            '{"name": "start", "agent": "dude", "transition_handler": "decide", "next": null}',
            '{"name": "resume", "next": "$interrupted"}',
            '{"name": "stop", "input": "common_data.summary"}',
            start_condition='"on_user_input"',
            input='{"name": "goal", "type": "string"}',
        )
    )

    assert problems == ()
    assert found is not None
    assert found.states[2] == State(name="stop", input="common_data.summary")


def test_an_editors_schema_key_is_not_ours_to_judge() -> None:
    text = workflow(START, STOP).replace("{", '{"$schema": "x",', 1)

    assert lint(text)[1] == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", ["w.json:1:1 $: expected an object {...}, found a list [...]."]),
        (
            "{}",
            [
                'w.json:1:1 $: the key "workflow_name" is missing: expected text.',
                'w.json:1:1 $: the key "states" is missing: expected a list of objects.',
            ],
        ),
        (
            workflow(START, STOP, start_conditon='"immediate"'),
            [
                'w.json:5:1 $.start_conditon: unknown key "start_conditon". '
                'Did you mean "start_condition"?'
            ],
        ),
        (
            workflow(START, STOP, start_condition='"imediate"'),
            [
                'w.json:5:20 $.start_condition: expected "immediate" or "on_user_input", '
                'found "imediate". Did you mean "immediate"?'
            ],
        ),
        (
            workflow(START, STOP, on_input='"halt"'),
            [
                'w.json:5:13 $.on_input: expected one of "interrupt", "steer", "queue", "reject", '
                'found "halt".'
            ],
        ),
        (
            workflow(START, STOP, variables='{"a.b": 1, "": 2, "fine": {"x": []}}'),
            [
                'w.json:5:15 $.variables["a.b"]: "a.b" cannot name a variable: '
                "expected a name without dots.",
                'w.json:5:25 $.variables[""]: "" cannot name a variable: '
                "expected a name without dots.",
            ],
        ),
        (
            workflow(START, STOP, variables="[]"),
            ["w.json:5:14 $.variables: expected an object {...}, found a list [...]."],
        ),
        (
            workflow(START, STOP, input='{"name": "n", "type": "strin"}'),
            [
                "w.json:5:32 $.input.type: expected one of string, number, integer, boolean, object, "
                'array, found "strin". Did you mean "string"?'
            ],
        ),
        (
            workflow(
                START, STOP, contexts='[{"name": "main"}, {"name": "idle"}, {"name": "main"}]'
            ),
            [
                'w.json:3:32 $.contexts[1]: warning: no agent uses the context "idle".',
                'w.json:3:59 $.contexts[2].name: a second context named "main", '
                "the first is on line 3. Give it another name.",
            ],
        ),
        (
            workflow(START, STOP, contexts='[{"name": "main", "max_length": 0}]'),
            [
                "w.json:3:45 $.contexts[0].max_length: expected a number of characters above 0, "
                "found 0. Leave it out for no limit."
            ],
        ),
        (
            workflow(START, STOP, contexts='[{"name": "main", "max_length": true}]'),
            ["w.json:3:45 $.contexts[0].max_length: expected a whole number, found true."],
        ),
        (
            workflow(
                START,
                STOP,
                contexts='[{"name": "main", "starting_messages": [\n'
                '{"role": "system", "content": "x"},\n{"role": "system", "content": "x"},\n'
                '{"role": "bot", "content": 1}]}]',
            ),
            [
                "w.json:5:1 $.contexts[0].starting_messages[1]: warning: "
                "the same message stands on line 4 already.",
                "w.json:6:10 $.contexts[0].starting_messages[2].role: expected one of "
                '"system", "user", "assistant", found "bot".',
                "w.json:6:28 $.contexts[0].starting_messages[2].content: expected text, found 1.",
            ],
        ),
        (
            workflow(START, STOP, agents='[{"agent_role": "duude", "context": "mian"}]'),
            [
                'w.json:4:27 $.agents[0].agent_role: there is no role "duude". Did you mean "dude"?',
                'w.json:4:47 $.agents[0].context: there is no context "mian". Did you mean "main"?',
                'w.json:6:28 $.states[0].agent: there is no agent "dude". Did you mean "duude"?',
            ],
        ),
        (
            workflow(
                START,
                STOP,
                agents='[{"agent_role": "dude", "context": "main"},\n'
                '{"agent_role": "dude", "context": "main", "role": "user"}]',
            ),
            [
                'w.json:5:16 $.agents[1].agent_role: a second agent named "dude", '
                'the first is on line 4. Tell them apart with a "name".'
            ],
        ),
        (
            workflow('{"name": "strat", "agent": "dude"}', STOP),
            [
                'w.json:5:11 $.states: the state "start" is missing: expected it where the '
                'workflow begins. Is "strat" on line 6 meant to be "start"?'
            ],
        ),
        (
            workflow(START),
            [
                'w.json:5:11 $.states: the state "stop" is missing: expected it where it ends. '
                'Add {"name": "stop"}.'
            ],
        ),
        (
            workflow(START, STOP, START),
            [
                'w.json:8:10 $.states[2].name: a second state named "start", the first is on '
                "line 6. Give it another name."
            ],
        ),
        (
            workflow(START, STOP, '{"name": "$x", "agent": "dude"}', '{"name": " "}'),
            [
                'w.json:8:1 $.states[2]: warning: nothing leads to the state "$x".',
                'w.json:8:10 $.states[2].name: names that begin with "$" are reserved: '
                "expected another name.",
                'w.json:9:1 $.states[3]: warning: nothing leads to the state " ".',
                "w.json:9:10 $.states[3].name: the name of this state is empty: expected text.",
            ],
        ),
        (
            workflow('{"name": "start", "agent": "dude", "next": "stpo", "on_failure": "x"}', STOP),
            [
                'w.json:6:44 $.states[0].next: there is no state "stpo". Did you mean "stop"?',
                'w.json:6:66 $.states[0].on_failure: there is no state "x". There are: start, stop.',
            ],
        ),
        (
            workflow('{"name": "start", "pre_handler": "gret", "post_handler": "xyz"}', STOP),
            [
                'w.json:6:34 $.states[0].pre_handler: w/script.py has no function "gret". '
                'Did you mean "greet" (line 3)?',
                'w.json:6:58 $.states[0].post_handler: w/script.py has no function "xyz". '
                "There are: decide, greet.",
                'w.json:4:12 $.agents[0]: warning: no state uses the agent "dude".',
            ],
        ),
        (
            workflow(
                START,
                '{"name": "stop", "agent": "dude", "next": "start", "on_input": null}',
            ),
            [
                'w.json:7:18 $.states[1].agent: the state "stop" ends the run: '
                'it cannot have "agent". Move it to a state that leads to stop.',
                'w.json:7:35 $.states[1].next: the state "stop" ends the run: '
                'it cannot have "next". Move it to a state that leads to stop.',
            ],
        ),
        (
            workflow('{"name": "start", "agent": "dude", "input": "common_data.x"}', STOP),
            [
                'w.json:6:36 $.states[0].input: only the state "stop" has an input: the path of the '
                "output. Handlers read run.input and run.common_data."
            ],
        ),
        (
            workflow(START, '{"name": "stop", "input": "comon_data.x"}'),
            [
                'w.json:7:27 $.states[1].input: expected a path such as "common_data.summary", '
                'found "comon_data.x". Did you mean "common_data"?'
            ],
        ),
        (
            workflow(START, '{"name": "stop", "input": "variables.max"}', variables='{"maxi": 1}'),
            ['w.json:8:27 $.states[1].input: there is no variable "max". Did you mean "maxi"?'],
        ),
        (
            workflow(START, '{"name": "stop", "input": "common_data."}'),
            ['w.json:7:27 $.states[1].input: a part of the path "common_data." is empty.'],
        ),
        (
            workflow(
                START,
                '{"name": "resume", "awaits_input": true, "on_failure": "stop"}',
                STOP,
            ),
            [
                "w.json:7:36 $.states[1].awaits_input: warning: "
                "this state has no agent that would hear the words.",
                "w.json:7:56 $.states[1].on_failure: warning: "
                "this state has no agent whose turn could fail.",
            ],
        ),
        (
            workflow(START, STOP, '{"name": 5, "agent": ["dude"]}', '"x"'),
            [
                "w.json:8:10 $.states[2].name: expected text, found 5.",
                "w.json:8:22 $.states[2].agent: expected text, found a list [...].",
                'w.json:9:1 $.states[3]: expected an object {...}, found "x".',
            ],
        ),
        (
            '{"workflow_name": "w"\n"states": [{"name": "start"}, {"name": "sotp"}]}',
            [
                'w.json:1:22 $: expected "," or "}", found "states".',
                'w.json:2:11 $.states: the state "stop" is missing: expected it where it ends. '
                'Is "sotp" on line 2 meant to be "stop"?',
            ],
        ),
    ],
)
def test_each_problem_is_told_with_its_place_and_what_was_expected(
    text: str, expected: list[str]
) -> None:
    assert sorted(said(text)) == sorted(expected)


def test_problems_come_in_the_order_of_the_file() -> None:
    problems = lint(workflow('{"name": "start", "agent": "x"}', STOP, on_input="1", agents="2"))[1]

    places = [(problem.line, problem.column) for problem in problems]
    assert places == sorted(places)
    assert len(places) > 2


def test_a_warning_alone_keeps_nothing_from_running() -> None:
    found, problems = lint(workflow(START, STOP, contexts='[{"name": "main"}, {"name": "idle"}]'))

    assert [problem.severity for problem in problems] == ["warning"]
    assert found is not None


def test_without_a_script_a_handler_asks_for_one() -> None:
    text = workflow('{"name": "start", "agent": "dude", "pre_handler": "greet"}', STOP)

    assert said(text, has_script=False) == [
        'w.json:6:51 $.states[0].pre_handler: the handler "greet" needs a script, and there is none. '
        "Write `def greet(run):` in w/script.py."
    ]


def test_unknown_tools_of_a_role_in_use_are_warned_of() -> None:
    text = workflow(
        '{"name": "start", "agent": "coder"}',
        STOP,
        agents='[{"agent_role": "coder", "context": "main"}]',
    )

    assert said(text, tools=TOOLS) == [
        'w.json:4:27 $.agents[0].agent_role: warning: the role "coder" names an unknown tool '
        '"read_file" in includedTools. Did you mean "read_files"?',
        'w.json:4:27 $.agents[0].agent_role: warning: the role "coder" names an unknown tool '
        '"shel" in excludedTools. Did you mean "shell"?',
    ]
    assert said(text, tools=None) == []


# --- where states lead --------------------------------------------------------------------------


def test_states_nothing_leads_to_are_warned_of() -> None:
    states = (
        '{"name": "start", "agent": "dude", "next": "a", "on_failure": "b"}',
        '{"name": "a", "agent": "dude"}',
        '{"name": "b", "agent": "dude"}',
        '{"name": "c", "agent": "dude", "next": "d"}',
        '{"name": "d", "agent": "dude"}',
        STOP,
    )
    assert said(workflow(*states)) == [
        'w.json:9:1 $.states[3]: warning: nothing leads to the state "c".',
        'w.json:10:1 $.states[4]: warning: nothing leads to the state "d".',
    ]


def test_a_reachable_transition_handler_may_lead_anywhere() -> None:
    assert (
        said(
            workflow(
                '{"name": "start", "next": "a"}',
                '{"name": "a", "agent": "dude", "transition_handler": "decide"}',
                '{"name": "b", "pre_handler": "greet"}',
                STOP,
            )
        )
        == []
    )


def test_a_workflow_that_never_ends_by_itself_is_warned_of() -> None:
    text = workflow('{"name": "start", "agent": "dude", "next": "start"}', STOP)

    assert said(text) == [
        'w.json:7:1 $.states[1]: warning: nothing leads to "stop": '
        "the workflow never ends by itself."
    ]


def test_the_way_back_to_what_was_cut_belongs_behind_resume() -> None:
    behind = workflow(START, '{"name": "resume", "agent": "dude", "next": "$interrupted"}', STOP)
    before = workflow('{"name": "start", "agent": "dude", "next": "$interrupted"}', STOP)

    assert said(behind) == []
    assert said(before)[0] == (
        'w.json:6:44 $.states[0].next: warning: "$interrupted" has no state to go back to '
        'before anything was interrupted. It belongs behind the state "resume".'
    )


def test_a_circle_with_nothing_to_do_is_an_error_told_once() -> None:
    text = workflow(
        '{"name": "start", "agent": "dude", "next": "a"}',
        '{"name": "a", "next": "b"}',
        '{"name": "b", "next": "c"}',
        '{"name": "c", "next": "b"}',
        STOP,
    )
    errors = [str(p) for p in lint(text)[1] if p.severity == "error"]

    assert errors == [
        "w.json:8:23 $.states[2].next: a circle in which no state has anything to do: b -> c -> b. "
        "Give one of them an agent or a handler, or let one lead to stop."
    ]


def test_a_circle_in_which_one_state_works_is_fine() -> None:
    text = workflow(
        '{"name": "start", "next": "a"}', '{"name": "a", "agent": "dude", "next": "start"}', STOP
    )

    assert [p.severity for p in lint(text)[1]] == ["warning"]


# --- whatever comes -----------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *(
            "workflow_name",
            "states",
            "name",
            "agent",
            "agents",
            "agent_role",
            "context",
            "contexts",
        ),
        *("next", "input", "start", "stop", "resume", "dude", "main", "max_length", "variables"),
        *(
            "starting_messages",
            "role",
            "content",
            "pre_handler",
            "on_input",
            "awaits_input",
            "greet",
        ),
        *("$interrupted", "common_data.x", "", "on_failure", "type", "queue", "user", "a\nb"),
    ]
)
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=40,
)
STATES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["start", "stop", "a", "b", "resume"])},
        optional={
            "agent": st.just("dude"),
            "next": st.sampled_from(["start", "stop", "a", "b", "$interrupted"]),
            "pre_handler": st.just("greet"),
            "transition_handler": st.just("decide"),
            "on_failure": st.sampled_from(["start", "a", "stop"]),
            "input": st.just("common_data.x"),
            "on_input": st.sampled_from(["queue", "halt"]),
            "awaits_input": st.booleans(),
        },
    ),
    max_size=6,
)


@given(ANY_JSON)
def test_no_json_makes_it_raise(value: Any) -> None:
    found, problems = lint(json.dumps(value), tools=TOOLS)

    assert found is None
    assert problems
    assert all(str(problem).count("\n") == 0 for problem in problems)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    assert lint(text)[0] is None


@given(STATES, ANY_JSON)
def test_a_file_without_errors_is_exactly_one_that_decodes_and_leads_somewhere(
    states: list[dict[str, Any]], variables: Any
) -> None:
    whole = {
        "workflow_name": "w",
        "contexts": [{"name": "main"}],
        "agents": [{"agent_role": "dude", "context": "main"}],
        "variables": variables,
        "states": states,
    }
    text = json.dumps(whole)
    found, _ = lint(text)

    if found is not None:
        assert found == msgspec.json.decode(text, type=Workflow)
        assert {"start", "stop"} <= {state.name for state in found.states}
