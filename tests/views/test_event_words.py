"""A fact in plain words, by itself: of any format, and what a model wrote stays one with who said it."""

import json
from pathlib import Path

import msgspec
import pytest

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.views.event_words import event_words

JOURNALS = sorted((Path(__file__).parents[1] / "journals").glob("*/export.jsonl"))


def told(fact: e.AnyFact) -> str:
    return event_words(Envelope(run="r", at=0.0, event=fact, seq=1))


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (e.StateTransition(source="a", target="b", reason="a is done"), "→ b  (a is done)"),
        (e.StateTransition(source="a", target="b", reason=""), "→ b"),
        (
            e.StateFailed(state="a", kind="tool", error="no", then="retry", wait_s=2.0),
            "a failed, tried again in 2 s: no",
        ),
        (
            e.RunFailed(error="It broke", hint="Mend it."),
            "failed: It broke. Mend it.",
        ),
        (e.AgentResponded(agent="dude", text="Hi\nthere."), "dude: Hi\nthere."),
        (e.AgentResponded(agent="dude", text=" ", is_final=False), ""),
        (
            e.ToolCalled(call_id="c", name="find_files", arguments={"pattern": "*"}, agent=""),
            "the workflow calls find_files(*)",
        ),
        (
            e.QuestionAsked(
                branch="left",
                question_id="left/q1",
                number=1,
                kind="question",
                text="Which?",
                agent="ada",
                choices=("a", "b"),
            ),
            "#1 left ▌ ada asks: Which? (a | b)",
        ),
        (
            e.QuestionAsked(question_id="q1", number=0, kind="input", text="Your idea"),
            "waits for words: Your idea",
        ),
        (
            e.QuestionAnswered(question_id="q1", answer={"n": 1}, input_id="i"),
            'q1 is answered: {"n":1}',
        ),
        (
            e.InputReceived(input_id="i", text="hi", source="mcp:x", handling="steer", to="left"),
            "mcp:x says to left: hi",
        ),
        (
            e.Interrupted(epoch=1, text="no", agent="dude", partial="Once "),
            "dude: Once [interrupted]",
        ),
        (e.Interrupted(epoch=1, text="no"), "interrupted"),
        (e.ReplyCut(agent="dude", partial=""), ""),
        (e.BranchFinished(branch="left"), "left ▌ finished"),
        (e.RunFinished(output=[1]), "finished: [1]"),
        (e.RunFinished(), "finished"),
        (e.TimeSpent(seconds=3.0), ""),
    ],
)
def test_a_fact_says_by_itself_what_happened(fact: e.AnyFact, words: str) -> None:
    assert told(fact) == words


def test_every_fact_of_every_format_that_was_kept_is_told() -> None:
    said = set[str]()
    for path in JOURNALS:
        for line in path.read_text(encoding="utf-8").splitlines():
            kept = json.loads(line).get("fact")
            if kept is not None:
                fact = msgspec.convert(kept, e.AnyFact)
                said |= {type(fact).__name__} if told(fact) else set()
    assert {"RunStarted", "StateTransition", "AgentResponded", "InputReceived"} <= said
    assert len(said) > 15
