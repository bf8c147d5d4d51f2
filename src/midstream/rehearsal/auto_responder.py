"""What models, tools and the person do once a rehearsal has left its script.

After an interruption or a kill, things come in another order than they were recorded in. What was
recorded is looked up by who is asked where; what was not is answered in the plainest way that fits.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from midstream.core.decide.steering import HAPPENED, NOT_KNOWN, OUTCOMES
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.models.offline import smallest
from midstream.rehearsal import format as form
from midstream.rehearsal.fake_world import Standing
from midstream.rehearsal.scenario_driver import call_of
from midstream.rehearsal.step_words import as_json
from midstream.runtime.ports import ModelRequest, ToolOutcome

Fits: TypeAlias = Callable[[form.UserSaid], bool]

PLAIN = "Very well."
"""What a model says that has nothing recorded to say."""


class Responder:
    """Answers from what is left of a rehearsal's steps, and from what is not.

    Args:
        steps: all steps of the rehearsal.
        done: how many of them have been done.
    """

    def __init__(self, steps: Sequence[form.AnyStep], done: int) -> None:
        self._all = steps
        self._left = list(steps[done:])
        self._replies = _numbered(steps)
        self._refused: dict[str, int] = {}

    def reply(
        self, request: ModelRequest, branch: str = ""
    ) -> form.ModelReplied | form.ModelFailed:
        """Return what a model says: what it said to such a request, the next time it was made or the
        last time; else words that ended a turn there; else plain ones (a smallest call if it must).

        What was said in the same branch of the run comes before what was said in others.
        """
        known = [reply for reply in self._replies if _is_for(reply[1], request)]
        known.sort(key=lambda numbered: numbered[1].branch != branch)
        such = [step for number, step in known if number == request.request]
        such = [step for step in such if step.branch == branch] or such
        unsaid = next((step for step in such if any(step is left for left in self._left)), None)
        if unsaid is not None:
            self._left = [step for step in self._left if step is not unsaid]
            return unsaid
        parsing = {tool.name for tool in request.tools} if request.must_call else set()
        again = [step for step in such if isinstance(step, form.ModelReplied)] or [
            step
            for _, step in known
            if isinstance(step, form.ModelReplied) and _ends_turn(step, parsing)
        ]
        if again:
            return again[-1]
        calls: tuple[form.Called, ...] = ()
        if request.must_call:
            tool = request.tools[-1]
            value: Json = smallest(tool.parameters)
            arguments = value if isinstance(value, dict) else {}
            calls = (form.Called(name=tool.name, arguments=arguments),)
        return form.ModelReplied(agent=request.agent, state=request.state, text=PLAIN, calls=calls)

    def outcome(self, standing: Standing) -> ToolOutcome:
        """Return how a tool call ends: as the same call did, else as another call of the tool did."""
        ended = [
            s for s in self._all if isinstance(s, form.ToolReturned) and s.tool == standing.name
        ]
        same = [step for step in ended if step.arguments == standing.arguments]
        for step in (*same, *ended):
            return ToolOutcome(outcome=step.outcome, text=step.result)
        return ToolOutcome(outcome="completed", text="ok")

    def was_late(self, timer: Standing) -> bool:
        """Return whether that deadline or timeout came before, and has not come again."""
        for step in self._left:
            if not isinstance(step, form.TimeCame) or step.timer != timer.name:
                continue
            if (step.branch, step.state) == (timer.branch, timer.state):
                self._left.remove(step)
                return True
        return False

    def answer(self, question: Question) -> str | None:
        """Return what the person answers; None once they have tried three times in vain."""
        tries = self._refused[question.id] = self._refused.get(question.id, 0) + 1
        if tries > 3:
            return None
        if question.choices == tuple(OUTCOMES):
            return NOT_KNOWN if question.agent else HAPPENED  # a state's own call: nobody verifies
        recorded = [
            step.text
            for step in self._all
            if isinstance(step, form.UserAnswered) and step.question == question.text
        ]
        if tries == 1 and recorded:
            return recorded[-1]
        if question.choices:
            return question.choices[0]
        if question.schema is not None:
            value: Json = smallest(question.schema)
            return value if isinstance(value, str) else as_json(value)
        return "As you like."

    def decision(self, run: Run, question: Question) -> bool:
        """Return whether the person allows a call: as they did for that tool, else yes."""
        call = call_of(run, question)
        for step in self._all:
            if isinstance(step, form.UserDecided) and call is not None and step.tool == call[0]:
                return step.granted
        return True

    def line(self) -> form.UserSaid | None:
        """Return what the person says where a state waits for their words; None: nothing is left."""
        return self._take(lambda step: not step.shown and step.policy is None)

    def unasked(self, run: Run, *, in_handler: bool) -> form.UserSaid | None:
        """Return what the person says unasked where the run stands now, None if nothing."""
        return self._take(
            lambda step: (
                step.state == run.visit.state and (step.after_handlers is not None) == in_handler
            )
        )

    def _take(self, fits: Fits) -> form.UserSaid | None:
        for step in self._left:
            if isinstance(step, form.UserSaid) and fits(step):
                self._left.remove(step)
                return step
        return None


def _is_for(step: form.ModelReplied | form.ModelFailed, request: ModelRequest) -> bool:
    return (step.agent, step.state) == (request.agent, request.state)


def _ends_turn(step: form.ModelReplied, parsing: set[str]) -> bool:
    called = {call.name for call in step.calls if not call.problem}
    return bool(called & parsing) if parsing else not called


def _numbered(
    steps: Sequence[form.AnyStep],
) -> list[tuple[int, form.ModelReplied | form.ModelFailed]]:
    """Return the replies of models, each with the number of its request in its turn, counted from 1."""
    numbered: list[tuple[int, form.ModelReplied | form.ModelFailed]] = []
    for step in steps:
        if not isinstance(step, form.ModelReplied | form.ModelFailed):
            continue
        number = 1
        in_branch = [pair for pair in numbered if pair[1].branch == step.branch]
        if in_branch:
            before, last = in_branch[-1]
            is_same = (last.agent, last.state) == (step.agent, step.state)
            if is_same and isinstance(last, form.ModelReplied) and last.calls:
                number = before + 1
        numbered.append((number, step))
    return numbered
