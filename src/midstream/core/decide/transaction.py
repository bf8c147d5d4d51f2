"""A story: facts told one after the other, with the run folded up to the last of them."""

from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.fold.apply import apply
from midstream.core.pictures import Picture
from midstream.core.question import Question
from midstream.core.run import InputRecord, Run
from midstream.language.errors import Fault
from midstream.language.names import Disposition, Json, Outcome


class Story:
    """What one input makes true. `facts` are in order; `run` is the run after them.

    `path` is the branch it is about, "" for the run itself.
    """

    path = ""
    around: "Story | None" = None
    """The story of the run around it, None where there is none."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.facts: list[e.AnyFact] = []

    @property
    def whole(self) -> "Story":
        """Return the story of the whole run."""
        return self

    def around_it(self) -> "list[Story]":
        """Return the stories of what is around, from the inside out."""
        return []

    def tell(self, fact: e.AnyFact) -> None:
        """Add a fact."""
        self.facts.append(fact)
        self.run = apply(self.run, fact)

    def within(self, name: str) -> "BranchStory":
        """Return the same story as a branch tells it."""
        return BranchStory(self, name)

    def living(self) -> "list[BranchStory]":
        """Return the stories of the branches that have not ended."""
        branches = self.run.visit.branches
        if not branches:
            return []
        return [self.within(name) for name, run in branches.items() if run.visit.phase != "ended"]

    def close_call(
        self,
        call_id: str,
        outcome: Outcome,
        result: str,
        pictures: tuple[Picture, ...] = (),
        note: str = "",
        below: dict[str, int] | None = None,
    ) -> None:
        """Tell how an open tool call ended."""
        assert self.run.visit.turn is not None
        turn = self.run.visit.turn
        calls = (*turn.calls, *turn.external)
        name = next(c.call.name for c in calls if c.call.id == call_id)
        self.tell(
            e.ToolReturned(
                call_id=call_id,
                name=name,
                outcome=outcome,
                result=result,
                pictures=pictures,
                note=note,
                below=below or {},
            )
        )

    def own_questions(self) -> list[Question]:
        """Return the open questions that were not asked by a branch within."""
        asked = self.run.inbox.open_questions
        return [q for q in asked if q.branch == self.path] if asked else []

    def supersede_questions(self, reason: str) -> None:
        """Close every open question unanswered."""
        if not self.run.inbox.open_questions:
            return  # those of branches stand there, too
        for story in self.living():
            story.supersede_questions(reason)
        for question in self.own_questions():
            self.tell(e.QuestionSuperseded(question_id=question.id, reason=reason))

    def undelivered(self) -> list[InputRecord]:
        """Return the lines that wait to have their effect here."""
        waiting = self.whole.run.inbox.undelivered
        return [record for record in waiting if record.to == self.path] if waiting else []

    def dispose_rest(self) -> None:
        """Say of every line not yet delivered that the run ended first."""
        for record in self.whole.run.inbox.undelivered:
            if record.to == self.path or record.to.startswith(f"{self.path}/" if self.path else ""):
                self.dispose(record.id, "rejected", "the run ended first")

    def dispose(self, input_id: str, disposition: Disposition, reason: str = "") -> None:
        """Say what became of a line."""
        self.whole.tell(e.InputDisposed(input_id=input_id, disposition=disposition, reason=reason))

    def fail(self, error: str, hint: str, *, fault: Fault) -> None:
        """End the run as failed; open questions close, undelivered words are named."""
        state = self.run.visit.state
        self.supersede_questions("the run failed")
        self.dispose_rest()
        self.tell(e.RunFailed(error=error, hint=hint, fault=fault, state=state))

    def finish(self, output: Json) -> None:
        """End the run as finished."""
        self.tell(e.RunFinished(output=output))

    def stop(self, reason: str) -> None:
        """End the run as stopped."""
        self.tell(e.RunStopped(reason=reason))

    def next_question_id(self) -> str:
        """Return the id of the next question, unique in the run."""
        return f"q{len(self.whole.run.inbox.questions) + 1}"

    def next_number(self) -> int:
        """Return the number a person answers the next question by; waiting for input has none."""
        return self.whole.run.inbox.last_number + 1

    def next_call_id(self) -> str:
        """Return the id of the next tool call, unique in the run."""
        return f"call_{self.whole.run.usage.calls_made + 1}"


class BranchStory(Story):
    """The story of a branch: what it tells is told of the run around it."""

    around: Story

    def __init__(self, around: Story, name: str) -> None:
        self.around = around
        self.name = name
        self.path = around.run.visit.branches[name].branch.path

    @property
    def run(self) -> Run:  # type: ignore[override]  # looked up: others may tell of it, too
        """Return the branch as it stands after the last fact."""
        return self.around.run.visit.branches[self.name]

    @property
    def whole(self) -> Story:
        """Return the story of the whole run."""
        return self.around.whole

    def around_it(self) -> list[Story]:
        """Return the stories of what is around, from the inside out."""
        return [self.around, *self.around.around_it()]

    def tell(self, fact: e.AnyFact) -> None:
        """Add a fact of the branch."""
        inner = f"{self.name}/{fact.branch}" if fact.branch else self.name
        self.around.tell(replace(fact, branch=inner))

    def fail(self, error: str, hint: str, *, fault: Fault) -> None:
        """End the branch as failed."""
        state = self.run.visit.state
        self.supersede_questions("the branch failed")
        self.dispose_rest()
        self.tell(e.BranchFailed(error=error, hint=hint, fault=fault, state=state))

    def finish(self, output: Json) -> None:
        """End the branch as finished."""
        self.tell(e.BranchFinished(output=output))

    def stop(self, reason: str) -> None:
        """End the branch as stopped."""
        self.tell(e.BranchStopped(reason=reason))

    def next_question_id(self) -> str:
        """Return the id of the next question, unique in the run."""
        return f"{self.path}/q{len(self.whole.run.inbox.questions) + 1}"
