"""A story: facts told one after the other, with the run folded up to the last of them."""

from midstream.core.apply import apply
from midstream.core.events import (
    AnyFact,
    InputDisposed,
    QuestionSuperseded,
    RunFailed,
    ToolReturned,
)
from midstream.core.names import Fault, Outcome
from midstream.core.run import Run


class Story:
    """What one input makes true. `facts` are in order; `run` is the run after them."""

    __slots__ = ("facts", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.facts: list[AnyFact] = []

    def tell(self, fact: AnyFact) -> None:
        """Add a fact."""
        self.facts.append(fact)
        self.run = apply(self.run, fact)

    def close_call(self, call_id: str, outcome: Outcome, result: str) -> None:
        """Tell how an open tool call ended."""
        assert self.run.turn is not None
        name = next(c.call.name for c in self.run.turn.calls if c.call.id == call_id)
        self.tell(ToolReturned(call_id=call_id, name=name, outcome=outcome, result=result))

    def supersede_questions(self, reason: str) -> None:
        """Close every open question unanswered."""
        for question in self.run.open_questions:
            self.tell(QuestionSuperseded(question_id=question.id, reason=reason))

    def dispose_rest(self) -> None:
        """Say of every line not yet delivered that the run ended first."""
        reason = "the run ended first"
        for record in self.run.undelivered:
            self.tell(InputDisposed(input_id=record.id, disposition="rejected", reason=reason))

    def fail(self, error: str, hint: str, *, fault: Fault) -> None:
        """End the run as failed; open questions close, undelivered words are named."""
        state = self.run.state
        self.supersede_questions("the run failed")
        self.dispose_rest()
        self.tell(RunFailed(error=error, hint=hint, fault=fault, state=state))

    def next_question_id(self) -> str:
        """Return the id of the next question, unique in the run."""
        return f"q{len(self.run.questions) + 1}"

    def next_number(self) -> int:
        """Return the number a person answers the next question by; waiting for input has none."""
        return self.run.last_number + 1
