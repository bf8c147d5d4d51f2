"""The machine of a workflow as data, and drawn: in a terminal, as SVG, in Mermaid and DOT."""

import re
from textwrap import dedent
from typing import Any
from xml.dom import minidom

import msgspec
import pytest

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.core.run import Run, Visit
from midstream.language.spec import Definition, Workflow
from midstream.views.cells import clipped, one_line, width_of, wrapped
from midstream.views.graph import Edge, Graph, Targets, graph_of, targets_of
from midstream.views.graph_layout import in_order
from midstream.views.graph_marks import Marks, marks_from, marks_object, marks_of
from midstream.views.graph_painters import dot, drawing, mermaid, svg

TEAM: list[dict[str, Any]] = [
    {
        "name": "start",
        "tool": "run_tests",
        "transitions": [
            {"when": "last.value.failed == 0 and visits.start > 1", "to": "stop"},
            {"to": "review"},
        ],
        "catch": [{"on": ["tool", "timeout"], "to": "give_up"}],
    },
    {
        "name": "review",
        "parallel": [
            {
                "name": "tests",
                "states": [
                    {"name": "look", "agent": "surveyor", "next": "judge"},
                    {
                        "name": "judge",
                        "agent": "reviewer",
                        "transitions": [{"when": "last.text == ''", "to": "look"}],
                    },
                ],
            },
            "solo",
        ],
        "join": "any",
        "next": "each",
        "resume": "sort_out",
    },
    {"name": "solo", "agent": "architect"},
    {
        "name": "each",
        "for_each": {"items": "common_data.modules", "states": [{"name": "検査", "agent": "dude"}]},
        "next": "which",
    },
    {
        "name": "which",
        "ask": {
            "question": "Which of\nthem?",
            "deadline_s": 90,
            "on_timeout": "goto",
            "to": "give_up",
        },
        "next": "start",
    },
    {"name": "give_up", "description": "Nothing helps."},
    {"name": "sort_out", "agent": "dude", "next": "$interrupted"},
    {"name": "stop", "input": "common_data.report"},
]


def machine(states: list[dict[str, Any]], *, script: str | None = None, **more: Any) -> Definition:
    plain = {"workflow_name": "w", "states": states, **more}
    return Definition(workflow=msgspec.convert(plain, Workflow), roles={}, script=script)


def graph(states: list[dict[str, Any]], *, script: str | None = None, **more: Any) -> Graph:
    return graph_of(machine(states, script=script, **more))


def ways(graph: Graph, state: str) -> list[tuple[str, str, str]]:
    return [(edge.kind, edge.target, edge.label) for edge in graph.exits(state)]


def drawn(text: str) -> str:
    """Return an expected drawing as it is written in a test."""
    return dedent(text).strip("\n")


# --- the machine as data --------------------------------------------------------------------------


def test_every_way_out_of_a_state_has_its_reason() -> None:
    made = graph(TEAM)

    assert ways(made, "start") == [
        ("transition", "stop", "last.value.failed == 0 and visits.start > 1"),
        ("transition", "review", "otherwise"),
        ("catch", "give_up", "error: tool, timeout"),
    ]
    assert ways(made, "review") == [
        ("branch", "solo", "a branch"),
        ("next", "each", ""),
        ("resume", "sort_out", "on your words"),
    ]
    assert ways(made, "which") == [
        ("next", "start", ""),
        ("timeout", "give_up", "no answer in 1.5 min"),
    ]
    assert ways(made, "solo") == [("next", "stop", "")]
    assert ways(made, "stop") == []


def test_branches_are_machines_within_their_state() -> None:
    review = graph(TEAM).node("review")
    assert review is not None
    (group,) = review.groups

    assert (group.name, group.kind, group.graph.entry) == ("tests", "branch", "look")
    assert [node.name for node in group.graph.nodes] == ["look", "judge", "stop"]
    assert ways(group.graph, "judge") == [
        ("transition", "look", "last.text == ''"),
        ("next", "stop", "otherwise"),
    ]


def test_a_sub_workflow_is_a_machine_within_its_state_and_never_within_itself() -> None:
    inner = machine([{"name": "start", "workflow": "w"}, {"name": "stop"}])
    outer = machine([{"name": "start", "workflow": "sub"}, {"name": "stop"}])
    inner = msgspec.structs.replace(inner, workflows={"w": outer})
    outer = msgspec.structs.replace(outer, workflows={"sub": inner})
    start = graph_of(outer).node("start")

    assert start is not None
    assert (start.work, start.groups[0].kind) == ("workflow sub", "workflow")
    nested = start.groups[0].graph.node("start")
    assert nested is not None
    assert nested.groups == ()


SCRIPT = """
def plain(run):
    return "a" if run.input else "b"

def hidden(run):
    return run.common_data["next"]

def partly(run):
    if run.input:
        return "a"

def by_variable(run):
    if run.input:
        back = "a"
    else:
        back = "b"
    def inner():
        return "nowhere"
    return back

def by_variable_unknown(run):
    back = "a"
    back = run.input
    return back

@wraps
def decorated(run):
    return "a"
"""


@pytest.mark.parametrize(
    ("handler", "names", "is_certain", "may_decline"),
    [
        ("plain", ("a", "b"), True, False),
        ("hidden", (), False, True),
        ("partly", ("a",), True, True),
        ("by_variable", ("a", "b"), True, False),
        ("by_variable_unknown", (), False, True),
        ("decorated", (), False, True),
        ("missing", (), False, True),
    ],
)
def test_where_a_handler_leads_is_read_off_its_script(
    handler: str, names: tuple[str, ...], is_certain: bool, may_decline: bool
) -> None:
    found = targets_of(SCRIPT, handler)

    assert found == Targets(names=names, is_certain=is_certain, may_decline=may_decline)


@pytest.mark.parametrize("script", [None, "", "def plain(:", "(" * 5_000, "\0"])
def test_of_a_script_that_cannot_be_read_nothing_is_known(script: str | None) -> None:
    assert targets_of(script, "plain") == Targets()


def test_a_handler_whose_ways_cannot_be_read_leads_nobody_knows_where() -> None:
    state = {"name": "start", "transition_handler": "hidden", "next": "stop"}
    made = graph([state, {"name": "stop"}], script=SCRIPT)

    assert ways(made, "start") == [
        ("handler", "", "hidden chooses"),
        ("next", "stop", "otherwise"),
    ]


def test_a_handler_that_always_chooses_leaves_nothing_to_next() -> None:
    states = [{"name": "start", "transition_handler": "plain", "next": "stop"}, {"name": "stop"}]

    assert ways(graph(states, script=SCRIPT), "start") == [
        ("handler", "a", "by plain"),
        ("handler", "b", "by plain"),
    ]


@pytest.mark.parametrize(
    ("more", "states", "leads"),
    [
        ({}, [], "start"),
        ({}, [{"name": "resume"}], "resume"),
        ({"on_input": "reject"}, [{"name": "resume"}], ""),
        ({"on_input": "reject"}, [{"name": "x", "on_input": "queue"}], "start"),
    ],
)
def test_words_lead_to_resume_else_to_start_unless_nothing_halts(
    more: dict[str, Any], states: list[dict[str, Any]], leads: str
) -> None:
    assert graph([{"name": "start"}, *states, {"name": "stop"}], **more).resume == leads


def test_the_order_is_that_of_the_way_with_stop_behind_what_leads_there() -> None:
    made = graph(TEAM)

    assert in_order(made) == (
        "start",
        "review",
        "solo",
        "each",
        "which",
        "give_up",
        "stop",
        "sort_out",
    )


def test_edges_are_plain_values() -> None:
    edge = Edge(source="a", target="b", kind="next")

    assert msgspec.to_builtins(edge) == {"source": "a", "target": "b", "kind": "next"}


# --- in the terminal ------------------------------------------------------------------------------

MARKS = Marks(
    current=frozenset({("review",), ("review", "tests", "judge")}),
    visits={("start",): 1, ("review",): 2, ("review", "tests", "look"): 2},
    seconds={("start",): 3.25, ("review",): 90.0, ("review", "tests", "look"): 0.25},
)

AT_80 = """
               ╭──────────────────────────────────────────────────────────╮
          ╭───▶│ start                                         ×1 · 3.2 s │
          │    │ tool run_tests                                           │
          │    │ ↩ your words lead here                                   │
      ╭───┼────┤ → stop  last.value.failed == 0 and visits.start > 1      │
      │   │    │ → review  otherwise                                      │
      │ ╭─┼────┤ → give_up  error: tool, timeout                          │
      │ │ │    ╰─┬────────────────────────────────────────────────────────╯
      │ │ │      ▼
      │ │ │    ┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
      │ │ │    ┃ review                                    ◀ ×2 · 1.5 min ┃
      │ │ │    ┃ 2 branches at once, one must end                         ┃
      │ │ │    ┃ ┄ branch tests                                           ┃
      │ │ │    ┃    ╭─────────────────────────╮                           ┃
      │ │ │    ┃ ╭─▶│ look        ×2 · 250 ms │                           ┃
      │ │ │    ┃ │  │ agent surveyor          │                           ┃
      │ │ │    ┃ │  ╰─┬───────────────────────╯                           ┃
      │ │ │    ┃ │    ▼                                                   ┃
      │ │ │    ┃ │  ┏━━━━━━━━━━━━━━━━━━━━━━━━━┓                           ┃
      │ │ │    ┃ │  ┃ judge                 ◀ ┃                           ┃
      │ │ │    ┃ │  ┃ agent reviewer          ┃                           ┃
      │ │ │    ┃ ╰──┨ → look  last.text == '' ┃                           ┃
      │ │ │    ┃    ┃ → stop  otherwise       ┃                           ┃
      │ │ │    ┃    ┗━┯━━━━━━━━━━━━━━━━━━━━━━━┛                           ┃
      │ │ │    ┃      ▼                                                   ┃
      │ │ │    ┃      ◉ stop                                              ┃
      │ │ │    ┃ ⇉ solo  a branch                                         ┃
      │ │ │ ╭──┨ → each                                                   ┃
    ╭┄┼┄┼┄┼┄┼┄┄┨ ⇢ sort_out  on your words                                ┃
    ┊ │ │ │ │  ┗━┯━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┛
    ┊ │ │ │ │    ▼
    ┊ │ │ │ │  ╭──────────────────────────────────────────────────────────╮
    ┊ │ │ │ │  │ solo                                                     │
    ┊ │ │ │ │  │ agent architect                                          │
    ┊ ├─┼─┼─┼──┤ → stop                                                   │
    ┊ │ │ │ │  ╰──────────────────────────────────────────────────────────╯
    ┊ │ │ │ │
    ┊ │ │ │ │  ╭──────────────────────────────────────────────────────────╮
    ┊ │ │ │ ╰─▶│ each                                                     │
    ┊ │ │ │    │ for each of common_data.modules, 4 at once, all must end │
    ┊ │ │ │    │ ╭────────────────╮                                       │
    ┊ │ │ │    │ │ 検査           │                                       │
    ┊ │ │ │    │ │ agent dude     │                                       │
    ┊ │ │ │    │ ╰─┬──────────────╯                                       │
    ┊ │ │ │    │   ▼                                                      │
    ┊ │ │ │    │   ◉ stop                                                 │
    ┊ │ │ │    ╰─┬────────────────────────────────────────────────────────╯
    ┊ │ │ │      ▼
    ┊ │ │ │    ╭──────────────────────────────────────────────────────────╮
    ┊ │ │ │    │ which                                                    │
    ┊ │ │ │    │ asks: Which of them?                                     │
    ┊ │ │ ╰────┤ → start                                                  │
    ┊ │ │      │ → give_up  no answer in 1.5 min                          │
    ┊ │ │      ╰─┬────────────────────────────────────────────────────────╯
    ┊ │ │        ▼
    ┊ │ │      ╭──────────────────────────────────────────────────────────╮
    ┊ │ ╰─────▶│ give_up                                                  │
    ┊ │        │ Nothing helps.                                           │
    ┊ │        ╰─┬────────────────────────────────────────────────────────╯
    ┊ │          ▼
    ┊ ╰────────▶ ◉ stop  common_data.report
    ┊
    ┊          ╭──────────────────────────────────────────────────────────╮
    ╰┄┄┄┄┄┄┄┄┄▶│ sort_out                                                 │
               │ agent dude                                               │
               │ ↩ back where it was cut                                  │
               ╰──────────────────────────────────────────────────────────╯
"""

AT_40 = """
               ╭───────────────────────────╮
          ╭───▶│ start          ×1 · 3.2 s │
          │    │ tool run_tests            │
          │    │ ↩ your words lead here    │
      ╭───┼────┤ → stop                    │
      │   │    │     last.value.failed ==  │
      │   │    │     0 and visits.start >  │
      │   │    │     1                     │
      │   │    │ → review  otherwise       │
      │ ╭─┼────┤ → give_up                 │
      │ │ │    │     error: tool, timeout  │
      │ │ │    ╰─┬─────────────────────────╯
      │ │ │      ▼
      │ │ │    ┏━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
      │ │ │    ┃ review     ◀ ×2 · 1.5 min ┃
      │ │ │    ┃ 2 branches at once, one   ┃
      │ │ │    ┃ must end                  ┃
      │ │ │    ┃ ┄ branch tests            ┃
      │ │ │    ┃    ╭───────────────────╮  ┃
      │ │ │    ┃ ╭─▶│ look  ×2 · 250 ms │  ┃
      │ │ │    ┃ │  │ agent surveyor    │  ┃
      │ │ │    ┃ │  ╰─┬─────────────────╯  ┃
      │ │ │    ┃ │    ▼                    ┃
      │ │ │    ┃ │  ┏━━━━━━━━━━━━━━━━━━━┓  ┃
      │ │ │    ┃ │  ┃ judge           ◀ ┃  ┃
      │ │ │    ┃ │  ┃ agent reviewer    ┃  ┃
      │ │ │    ┃ ╰──┨ → look            ┃  ┃
      │ │ │    ┃    ┃     last.text ==  ┃  ┃
      │ │ │    ┃    ┃     ''            ┃  ┃
      │ │ │    ┃    ┃ → stop  otherwise ┃  ┃
      │ │ │    ┃    ┗━┯━━━━━━━━━━━━━━━━━┛  ┃
      │ │ │    ┃      ▼                    ┃
      │ │ │    ┃      ◉ stop               ┃
      │ │ │    ┃ ⇉ solo  a branch          ┃
      │ │ │ ╭──┨ → each                    ┃
    ╭┄┼┄┼┄┼┄┼┄┄┨ ⇢ sort_out  on your words ┃
    ┊ │ │ │ │  ┗━┯━━━━━━━━━━━━━━━━━━━━━━━━━┛
    ┊ │ │ │ │    ▼
    ┊ │ │ │ │  ╭───────────────────────────╮
    ┊ │ │ │ │  │ solo                      │
    ┊ │ │ │ │  │ agent architect           │
    ┊ ├─┼─┼─┼──┤ → stop                    │
    ┊ │ │ │ │  ╰───────────────────────────╯
    ┊ │ │ │ │
    ┊ │ │ │ │  ╭───────────────────────────╮
    ┊ │ │ │ ╰─▶│ each                      │
    ┊ │ │ │    │ for each of               │
    ┊ │ │ │    │ common_data.modules, 4 at │
    ┊ │ │ │    │ once, all must end        │
    ┊ │ │ │    │ ╭────────────────╮        │
    ┊ │ │ │    │ │ 検査           │        │
    ┊ │ │ │    │ │ agent dude     │        │
    ┊ │ │ │    │ ╰─┬──────────────╯        │
    ┊ │ │ │    │   ▼                       │
    ┊ │ │ │    │   ◉ stop                  │
    ┊ │ │ │    ╰─┬─────────────────────────╯
    ┊ │ │ │      ▼
    ┊ │ │ │    ╭───────────────────────────╮
    ┊ │ │ │    │ which                     │
    ┊ │ │ │    │ asks: Which of them?      │
    ┊ │ │ ╰────┤ → start                   │
    ┊ │ │      │ → give_up                 │
    ┊ │ │      │     no answer in 1.5 min  │
    ┊ │ │      ╰─┬─────────────────────────╯
    ┊ │ │        ▼
    ┊ │ │      ╭───────────────────────────╮
    ┊ │ ╰─────▶│ give_up                   │
    ┊ │        │ Nothing helps.            │
    ┊ │        ╰─┬─────────────────────────╯
    ┊ │          ▼
    ┊ ╰────────▶ ◉ stop  common_data.repo…
    ┊
    ┊          ╭───────────────────────────╮
    ╰┄┄┄┄┄┄┄┄┄▶│ sort_out                  │
               │ agent dude                │
               │ ↩ back where it was cut   │
               ╰───────────────────────────╯
"""


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (40, AT_40)])
def test_a_machine_is_drawn_with_where_it_is(width: int, expected: str) -> None:
    assert drawing(graph(TEAM), width=width, marks=MARKS) == drawn(expected)


def test_a_small_machine_needs_few_lines() -> None:
    states = [
        {"name": "start", "agent": "dude", "next": "look"},
        {"name": "look", "agent": "reviewer", "on_failure": "start"},
        {"name": "stop", "input": "last_response"},
    ]
    expected = """
       ╭─────────────────────────╮
    ╭─▶│ start                   │
    │  │ agent dude              │
    │  │ ↩ your words lead here  │
    │  ╰─┬───────────────────────╯
    │    ▼
    │  ╭─────────────────────────╮
    │  │ look                    │
    │  │ agent reviewer          │
    │  │ → stop                  │
    ╰──┤ → start  the turn fails │
       ╰─┬───────────────────────╯
         ▼
         ◉ stop  last_response
    """

    assert drawing(graph(states), width=80) == drawn(expected)


@pytest.mark.parametrize("width", [1, 24, 30, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    deep: dict[str, Any] = {"name": "deep", "agent": "dude"}
    for number in range(3):
        deep = {"name": f"level{number}", "parallel": [{"states": [deep]}]}
    states = [*TEAM[:-1], deep, *crowd(30), TEAM[-1]]
    lines = drawing(graph(states), width=width, marks=MARKS).splitlines()

    assert max(map(width_of, lines)) <= max(width, 24)


def crowd(count: int) -> list[dict[str, Any]]:
    """Return states that lead far up and down, more than there is room for rails."""
    return [
        {
            "name": f"c{number}",
            "transitions": [{"when": "input", "to": f"c{(number * 7 + 5) % count}"}],
            "next": f"c{(number * 11 + 3) % count}",
        }
        for number in range(count)
    ]


def test_without_room_for_a_rail_the_words_still_say_where_it_leads() -> None:
    text = drawing(graph([{"name": "start", "next": "c0"}, *crowd(30), {"name": "stop"}]), width=30)

    for number in range(30):
        assert f"→ c{(number * 7 + 5) % 30}" in text


HOSTILE = 'a"]; <b>&`\\N` %%{init}%% --> x | y\u202e\x1b[31m \ud83d 家\u0301'


def hostile() -> Graph:
    return graph(
        [
            {
                "name": "start",
                "agent": HOSTILE,
                "next": HOSTILE,
                "description": f"{HOSTILE}\n\n- x",
            },
            {
                "name": HOSTILE,
                "parallel": [{"name": HOSTILE, "states": [{"name": HOSTILE, "ask": HOSTILE}]}],
                "transitions": [{"when": f"input == '{HOSTILE}'", "to": "start"}],
            },
            {"name": "stop", "input": HOSTILE},
        ],
        workflow_name=HOSTILE,
    )


@pytest.mark.parametrize("form", [drawing, svg, mermaid, dot])
def test_names_cannot_upset_a_drawing(form: Any) -> None:
    text = form(hostile())

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    assert text.encode()


# --- for other drawers ----------------------------------------------------------------------------


def test_an_svg_is_one_well_formed_file_for_day_and_night() -> None:
    text = svg(graph(TEAM))
    document = minidom.parseString(text.encode())

    shown = " ".join(each.toxml() for each in document.getElementsByTagName("text"))
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert all(state["name"] in shown for state in TEAM)
    assert "検査" in shown


def test_hostile_names_stay_text_in_an_svg() -> None:
    document = minidom.parseString(svg(hostile()).encode())

    assert document.getElementsByTagName("b") == []
    title = document.getElementsByTagName("title")[0].toxml()
    assert "&lt;b&gt;&amp;" in title


def test_mermaid_knows_states_by_numbers_and_quotes_what_people_wrote() -> None:
    text = mermaid(graph(TEAM))

    assert text.startswith('flowchart TD\n  s1["start<br/>tool run_tests"]\n')
    assert '  subgraph s2g1["branch tests"]\n' in text
    assert '  s2 -.->|"on your words"| s8\n' in text
    for line in mermaid(hostile()).splitlines():
        inside = re.findall(r'"([^"]*)"', line)
        assert not re.search(r'["\[\]{}<>%`|\\&]', "".join(inside).replace("<br/>", ""))
        assert re.fullmatch(
            r'\s*(flowchart TD|end|subgraph \w+\[""\]|\w+(\[""\]|\(\(""\)\)|\(\[""\]\) -\.-> \w+'
            r'|( -->| -\.->)(\|""\|)? \w+))',
            re.sub(r'"[^"]*"', '""', line),
        ), line


def test_dot_quotes_what_people_wrote() -> None:
    text = dot(graph(TEAM))

    assert text.startswith('digraph "w" {\n')
    assert "  subgraph cluster_s2g1 {\n" in text
    assert '[label="on your words", style=dashed];' in text
    for line in dot(hostile()).splitlines():
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
        assert re.fullmatch(r"[\w\s\[\]{}=,;>.-]*", outside), line
        assert not re.search(r"(?<!\\)(\\\\)*\\[^n\"\\]", line)


# --- what a run has been through ------------------------------------------------------------------


def told(*events: tuple[float, Any]) -> list[Envelope]:
    return [
        Envelope(run="r", at=at, event=event, seq=seq) for seq, (at, event) in enumerate(events, 1)
    ]


def to(source: str, target: str, branch: str = "", *, resumes: bool = False) -> e.StateTransition:
    return e.StateTransition(
        source=source, target=target, reason="next", branch=branch, resumes=resumes
    )


def test_facts_say_how_often_and_how_long_a_run_was_where() -> None:
    facts = told(
        (100.0, to("", "start")),
        (103.0, to("start", "review")),
        (103.0, e.BranchStarted(name="tests")),
        (103.0, to("", "look", "tests")),
        (104.0, e.BranchStarted(name="solo")),
        (104.0, to("", "solo", "solo")),
        (110.0, to("look", "judge", "tests")),
        (112.0, e.BranchFinished(branch="solo")),
    )
    marks = marks_from(facts, graph(TEAM), now=115.0)

    assert marks.visits == {
        ("start",): 1,
        ("review",): 1,
        ("review", "tests", "look"): 1,
        ("solo",): 1,
        ("review", "tests", "judge"): 1,
    }
    assert marks.seconds == {
        ("start",): 3.0,
        ("review",): 12.0,
        ("review", "tests", "look"): 7.0,
        ("solo",): 8.0,
        ("review", "tests", "judge"): 5.0,
    }
    assert marks.current == {("review",), ("review", "tests", "judge")}


def test_time_without_a_process_and_after_the_end_is_not_counted() -> None:
    facts = told(
        (100.0, to("", "start")),
        (102.0, to("start", "which")),
        (104.0, to("which", "start", resumes=True)),
        (900.0, e.RunRecovered()),
        (903.0, to("start", "stop")),
        (903.0, e.RunFinished()),
    )
    marks = marks_from(facts, graph(TEAM), now=9_999.0)

    assert marks.seconds == {("start",): 5.0, ("which",): 2.0, ("stop",): 0.0}
    assert marks.visits == {("start",): 1, ("which",): 1, ("stop",): 1}
    assert marks.is_over
    assert {"state": ["start"], "visits": 1, "seconds": 5.0} in marks_object(marks)["visited"]


def test_a_run_knows_where_it_and_its_branches_are() -> None:
    branch = Run(id="r", visit=Visit(state="judge"), visits={"look": 2, "judge": 1})
    visit = Visit(state="review", branches={"tests": branch})
    run = Run(id="r", visit=visit, visits={"start": 1, "review": 1})
    marks = marks_of(run, graph(TEAM))

    assert marks.current == {("review",), ("review", "tests", "judge")}
    assert marks.visits[("review", "tests", "look")] == 2


# --- cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("検査", 4), ("e\u0301", 1), ("", 0), ("a\u200db", 2)]
)
def test_a_text_is_measured_in_cells(text: str, width: int) -> None:
    assert width_of(text) == width


def test_a_text_is_cut_and_wrapped_by_cells() -> None:
    assert clipped("検査検査", 5) == "検査…"
    assert clipped("abc", 3) == "abc"
    assert wrapped("one two three", 7, most=2) == ["one two", "three"]
    assert wrapped("one two three four", 7, most=2) == ["one two", "three…"]
    assert wrapped("検査検査検", 4, most=9) == ["検査", "検査", "検"]
    assert one_line(" a\n\tb\x1b ") == "a b\ufffd"
