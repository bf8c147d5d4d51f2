"""What spans and metrics say: figures that are right, no words unless asked for, no secret at all."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.collector import Collector, Got
from telemetry_kit import told

from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.notices import Envelope
from midstream.safety.redaction import Redactor
from midstream.telemetry import names
from midstream.telemetry.spans import Fork
from midstream.testing.fakes import FakeTool, FakeTools, define

KEY = "sk-proj-Zq7vT2mX9bL4nR8sK1wY6dF3hJ5gP0aC"
WORDS = "the plan of the castle"


def workflow(state: str = "start", agent: str = "worker", tool: str = "deploy") -> Any:
    spec = {
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": agent, "context": "desk"}],
        "states": [
            {"name": "start", "agent": agent},
            {"name": state, "agent": agent},
            {"name": "stop"},
        ],
    }
    if state == "start":
        del spec["states"][1]
    return define(spec, tools=FakeTools(FakeTool(name=tool, effect="once")))


def facts(*told: e.AnyFact, at: Sequence[float] = (), run: str = "abcd2345") -> list[Envelope]:
    """Return facts, each a second after the one before where no times are given."""
    times = at or [1_700_000_000.0 + number for number in range(len(told))]
    return [
        Envelope(run=run, at=when, event=fact, seq=seq)
        for seq, (when, fact) in enumerate(zip(times, told, strict=True), 1)
    ]


def usage(**more: Any) -> e.Usage:
    known: dict[str, Any] = {"model": "openai:gpt-5", "cost_usd": "0.25", "input_tokens": 100}
    return e.Usage(**{**known, "output_tokens": 20, **more})


CALL = ToolCall(id="call_1", name="deploy", arguments={"path": "/home/me/castle", "token": KEY})
STORY: tuple[e.AnyFact, ...] = (
    e.RunStarted(workflow="build", definition=workflow(), input=WORDS, workspace="/home/me/castle"),
    e.StateTransition(source="", target="start", reason=WORDS),
    e.AgentResponded(agent="worker", text=WORDS, calls=(CALL,), is_final=False, usage=usage()),
    e.QuestionAsked(question_id="q1", number=1, kind="approval", text=WORDS, call_id="call_1"),
    e.QuestionAnswered(question_id="q1", answer="yes"),
    e.ToolCalled(call_id="call_1", name="deploy", arguments=CALL.arguments, agent="worker"),
    e.RunRecovered(was_cut=True),
    e.QuestionAsked(question_id="q2", number=2, kind="question", text="Did it?", call_id="call_1"),
    e.QuestionAnswered(question_id="q2", answer=WORDS),
    e.ToolReturned(call_id="call_1", name="deploy", outcome="unknown", result=f"{WORDS} {KEY}"),
    e.AgentResponded(agent="worker", text=WORDS, usage=usage(cost_usd=None, cached_tokens=60)),
    e.StateTransition(source="start", target="stop", reason=WORDS),
    e.RunFinished(output=WORDS),
)


def in_words(collector: Collector) -> str:
    return repr([*collector.spans.values(), *collector.points.items()])


def test_no_words_arguments_or_paths_are_told_unless_they_are_asked_for() -> None:
    collector = Collector()
    told(collector, facts(*STORY))

    assert collector.whole()
    for private in (WORDS, "castle", KEY, "Did it?", "/home"):
        assert private not in in_words(collector)


def test_content_that_is_asked_for_is_whole_json_without_secrets() -> None:
    collector = Collector()
    told(collector, facts(*STORY), content=True)

    assert KEY not in in_words(collector)
    [tool] = collector.named("execute_tool deploy")
    arguments = json.loads(tool.attributes[names.TOOL_ARGUMENTS])
    assert arguments["path"] == "/home/me/castle"
    assert arguments["token"].startswith("[redacted")
    assert tool.attributes[names.TOOL_RESULT].startswith(f"{WORDS} [redacted")
    first, second = collector.named("chat gpt-5")
    [reply] = json.loads(first.attributes[names.OUTPUT_MESSAGES])
    assert reply["finish_reason"] == "tool_call"
    assert [part["type"] for part in reply["parts"]] == ["text", "tool_call"]
    heard = json.loads(second.attributes[names.INPUT_MESSAGES])
    assert [message["role"] for message in heard] == ["assistant", "tool"]
    [root] = collector.named("invoke_workflow build")
    assert root.attributes[names.RUN_OUTPUT] == WORDS


def test_the_figures_are_those_of_the_facts() -> None:
    collector = Collector()
    told(collector, facts(*STORY))

    def only(metric: names.Metric, key: str = "amount") -> Any:
        [point] = collector.figures(metric.name)
        return point[key]

    assert only(names.SPENT) == 0.25
    assert only(names.UNPRICED) == 1
    assert only(names.SPENT, "attributes")["gen_ai.agent.name"] == "worker"
    assert only(names.INPUT_USED) == 200
    assert only(names.OUTPUT_USED) == 40
    assert only(names.CACHED_USED) == 60
    assert only(names.UNKNOWN) == 1
    assert only(names.RECOVERIES) == 1
    waits = {
        p["attributes"]["midstream.question.kind"]: p["sum"]
        for p in collector.figures(names.WAIT.name)
    }
    assert waits == {"approval": 1.0, "question": 1.0}
    assert only(names.TOOL_DURATION, "sum") == 4.0
    assert only(names.INFERENCE, "sum") == 2.0


def test_what_was_in_flight_in_a_crash_is_one_span_that_ends_as_it_ended() -> None:
    collector = Collector()
    told(collector, facts(*STORY))

    [tool] = collector.named("execute_tool deploy")
    assert (tool.end - tool.start) == 4_000_000_000
    assert [name for name, _, _ in tool.events] == ["midstream.recovered"]
    assert (tool.status, tool.attributes["error.type"]) == (2, "unknown")
    asked = [
        span for span in collector.spans.values() if span.name == "wait for a person: question"
    ]
    assert [span.parent for span in asked] == [tool.id]


def test_words_to_halt_are_measured_from_when_they_were_said() -> None:
    collector = Collector()
    began = 1_700_000_000.0
    story = (
        *STORY[:2],
        e.InputReceived(
            input_id="i", text=WORDS, source="user", handling="interrupt", at=began + 2
        ),
        e.Interrupted(epoch=1, text=WORDS, state="start", agent="worker", partial=WORDS),
        e.InputDisposed(input_id="i", disposition="interrupted"),
        e.StateTransition(source="start", target="start", reason=WORDS),
        e.RunStopped(reason=WORDS),
    )
    told(collector, facts(*story, at=[began, began, *[began + 2.004] * 4, began + 9]))

    halts = {p["attributes"][names.STAGE]: p["sum"] for p in collector.figures(names.HALT.name)}
    assert halts == pytest.approx({"words": 0.004, "stopped": 0.004}, abs=1e-6)
    assert collector.total(names.INTERRUPTIONS.name) == 1
    cut, stopped = collector.named("state start")
    assert (cut.attributes[names.OUTCOME], stopped.attributes[names.OUTCOME]) == (
        "interrupted",
        "stopped",
    )
    assert collector.named("chat")[0].attributes[names.OUTCOME] == "interrupted"
    assert WORDS not in in_words(collector)


def test_a_tool_that_takes_a_while_to_stop_is_a_halt_that_takes_a_while() -> None:
    collector = Collector()
    began = 1_700_000_000.0
    story = (
        *STORY[:3],
        e.ToolCalled(call_id="call_1", name="deploy", arguments={}, agent="worker"),
        e.InputReceived(input_id="i", text="x", source="user", handling="interrupt", at=began + 5),
        e.Interrupted(epoch=1, text="x", state="start", agent="worker"),
        e.ToolReturned(call_id="call_1", name="deploy", outcome="stopped", result=""),
        e.StateTransition(source="start", target="start", reason=""),
        e.RunStopped(reason=""),
    )
    times = [began, began, began + 1, began + 2, *[began + 5.5] * 2, *[began + 8] * 3]
    told(collector, facts(*story, at=times))

    halts = {p["attributes"][names.STAGE]: p["sum"] for p in collector.figures(names.HALT.name)}
    assert halts == {"words": 0.5, "stopped": 3.0}
    [tool] = collector.named("execute_tool deploy")
    assert (tool.attributes[names.OUTCOME], tool.status) == ("stopped", 0)
    assert collector.named("invoke_agent worker")[0].attributes[names.OUTCOME] == "interrupted"


def test_a_fork_is_a_trace_of_its_own_that_names_where_it_comes_from() -> None:
    collector = Collector()
    told(collector, facts(*STORY))
    own: list[e.AnyFact] = [
        e.RunRecovered(),
        e.ToolReturned(call_id="call_1", name="deploy", outcome="completed", result=""),
    ]
    later = [1_700_000_100.0, 1_700_000_101.0, 1_700_000_102.0, 1_700_000_103.0]
    forked = facts(*STORY[:6], *own, e.AgentResponded(agent="worker", text=""), e.RunStopped(reason=""),
                   at=[*(1_700_000_000.0 + n for n in range(6)), *later], run="ef")  # fmt: skip
    trace = told(collector, forked, run="ef", fork=Fork("abcd2345", 6))

    spans = collector.whole()
    [root] = [s for s in spans.values() if s.attributes[names.RUN] == "ef" and not s.parent]
    [of] = [s for s in spans.values() if s.attributes[names.RUN] == "abcd2345" and not s.parent]
    assert root.links == ((of.trace, of.id),)
    assert root.trace != of.trace
    assert min(s.start for s in spans.values() if s.trace == root.trace) == 1_700_000_100 * 10**9
    assert trace.open == 0
    assert collector.total(names.SPENT.name) == 0.25  # what the parent paid is not paid twice


HOSTILE = (
    "\x1b]0;owned\x07", "a\u202eb", "x" * 100_000, "'; DROP TABLE spans --", "\ud800", "\x00", "{{7*7}}",
    "a\nb\tc", KEY,
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_a_harmless_one(name: str) -> None:
    story: list[e.AnyFact] = [
        e.RunStarted(workflow=name, definition=workflow(name, agent=name, tool=name)),
        e.StateTransition(source="", target=name, reason=""),
        e.AgentResponded(
            agent=name,
            text=name,
            calls=(ToolCall(id=name, name=name, arguments={name: name}),),
            is_final=False,
            usage=usage(model=name),
        ),
        e.ToolCalled(call_id=name, name=name, arguments={}, agent=name),
        e.ToolReturned(call_id=name, name=name, outcome="failed", result=name),
        e.RunFailed(error=name),
    ]
    for content in (False, True):
        collector = Collector()
        told(collector, facts(*story), content=content)
        assert len(collector.whole()) == 6
        words = in_words(collector)
        assert KEY not in words
        assert "\\x1b" not in words
        assert "\\u202e" not in words or "\\\\u202e" in words
        assert all(len(span.name) <= 220 for span in collector.spans.values())


def test_a_key_of_the_environment_is_in_nothing_that_is_told() -> None:
    collector = Collector()
    secret = "correct horse battery staple"
    story: list[e.AnyFact] = [
        e.RunStarted(workflow=f"x {secret}", definition=workflow(), input={"it": secret}),
        e.RunStopped(reason=secret),
    ]
    told(collector, facts(*story), content=True, redactor=Redactor({secret: "passphrase"}))

    [root] = collector.spans.values()
    assert secret not in in_words(collector)
    assert "[redacted: passphrase]" in root.name


def test_a_clock_that_goes_back_makes_no_span_end_before_it_begins() -> None:
    collector = Collector()
    times = [1_700_000_000.0 - 60 * number for number in range(len(STORY))]
    told(collector, facts(*STORY, at=times))

    assert all(span.start <= span.end for span in collector.whole().values())


def test_a_span_keeps_no_more_events_than_it_may() -> None:
    collector = Collector()
    many: list[e.AnyFact] = [e.RunRecovered(was_cut=True)] * 300
    told(collector, facts(*STORY[:2], *many, e.RunStopped(reason="")))

    def events(span: Got) -> int:
        return len(span.events)

    assert max(map(events, collector.whole().values())) == 128
