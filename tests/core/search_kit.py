"""What the searches through random runs share: who plays, how a run is reopened, what its facts keep to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from decide_kit import TOOLS, go, of
from hypothesis import strategies as st

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.codec import decode_fact, decode_run, encode_fact, encode_run
from midstream.core.fold.apply import apply
from midstream.core.pending import AskModel, AwaitTime, CallTool, ReviewCall, RunHandler, pending
from midstream.core.run import Run

ONCE = {name for name, tool in TOOLS.items() if tool.effect == "once"}


class AnyPlayer(ABC):
    """Draws what happens next, and remembers keys and ids to send again too late."""

    texts: ClassVar[st.SearchStrategy[str]]

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.keys: list[inputs.EffectKey] = [(0, "model", 1), (99, "pre", 0)]
        self.lines: list[str] = ["never"]
        self.at = 0.0

    def owed(self, run: Run) -> inputs.AnyInput:
        effect = self.data.draw(st.sampled_from(pending(run)))
        match effect:
            case AskModel():
                return self.model(effect.key)
            case CallTool():
                return self.tool(effect.key)
            case ReviewCall():
                return self.review(effect.key)
            case RunHandler():
                return self.handler(effect.key)
            case AwaitTime(until=None):
                return inputs.TimerStarted(key=effect.key, until=self.at + effect.seconds)
            case AwaitTime():
                return inputs.TimerRang(key=effect.key, shown=self.shown())

    @abstractmethod
    def model(self, key: inputs.EffectKey) -> inputs.AnyInput:
        """Return what the model comes to."""

    @abstractmethod
    def tool(self, key: inputs.EffectKey) -> inputs.AnyInput:
        """Return what the tool comes to."""

    @abstractmethod
    def handler(self, key: inputs.EffectKey) -> inputs.AnyInput:
        """Return what the handler comes to."""

    def review(self, key: inputs.EffectKey) -> inputs.AnyInput:
        kind = self.data.draw(st.sampled_from(["allow", "ask", "ask", "deny"]))
        asks = ("exec: ls", "shown: 1") if kind == "ask" else ()
        return inputs.CallReviewed(key=key, kind=kind, asks=asks, shows="$ ls", reason="It asks.")  # type: ignore[arg-type]

    def shown(self) -> tuple[inputs.Shown, ...]:
        return tuple(
            inputs.Shown(
                key=key, text=self.data.draw(self.texts), has_calls=self.data.draw(st.booleans())
            )
            for key in self.keys[-2:]
        )


def reopened(run: Run, facts: Sequence[e.AnyFact]) -> Run:
    """Return the run as the next process has it: from its facts, and from a snapshot, as bytes."""
    from_facts = Run(id="r")
    for fact in facts:
        from_facts = apply(from_facts, decode_fact(encode_fact(fact)))
    assert from_facts == run
    assert decode_run(*encode_run(run)) == run
    return from_facts


def to_the_end(run: Run) -> tuple[Run, list[e.AnyFact]]:
    """Stop the run and let its tools end."""
    run, facts = go(run, inputs.Stop(reason="enough"))
    for effect in pending(run):
        run, more = go(run, inputs.ToolFinished(key=effect.key, outcome="stopped", text=""))
        facts += more
    return run, facts


def once_under_way(run: Run) -> set[str]:
    """Return the calls under way that must not be made twice."""
    return {
        effect.call.id
        for effect in pending(run)
        if isinstance(effect, CallTool) and effect.call.name in ONCE
    }


def check_ended(facts: Sequence[e.AnyFact]) -> None:
    """Check what holds of all the facts of a run that is over."""
    received = [fact.input_id for fact in of(facts, e.InputReceived)]
    disposed = [fact.input_id for fact in of(facts, e.InputDisposed)]
    assert sorted(received) == sorted(disposed), "a line ends in exactly one way"
    asked = [fact.question_id for fact in of(facts, e.QuestionAsked)]
    closed = [fact.question_id for fact in of(facts, e.QuestionAnswered)]
    closed += [fact.question_id for fact in of(facts, e.QuestionSuperseded)]
    closed += [fact.question_id for fact in of(facts, e.QuestionExpired) if not fact.stays]
    assert sorted(closed) == sorted(asked), "every question closes once"
    called = [fact.call_id for fact in of(facts, e.ToolCalled)]
    returned = [fact.call_id for fact in of(facts, e.ToolReturned)]
    assert len(set(called)) == len(called), "no call is made twice"
    assert len(set(returned)) == len(returned), "no call ends twice"
    assert set(called) <= set(returned), "every call that was made has an end"
    assert all(fact.fault != "bug" for fact in of(facts, e.RunFailed))
