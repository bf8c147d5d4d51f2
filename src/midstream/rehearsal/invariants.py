"""What must be true of a run whatever happens to it, read off its facts and what models were sent."""

from collections import Counter
from collections.abc import Iterator, Sequence

from midstream.core import events as e
from midstream.core.fold.apply import apply
from midstream.core.fold.fold_states import resume_target
from midstream.core.routing import branch_at
from midstream.core.run import Run
from midstream.language.names import Outcome
from midstream.runtime.ports import ModelRequest

_ENDS = (
    e.RunFinished,
    e.RunFailed,
    e.RunStopped,
    e.BranchFinished,
    e.BranchFailed,
    e.BranchStopped,
)


def broken_by(
    run: Run, facts: Sequence[e.AnyFact], requests: Sequence[ModelRequest], effects: dict[str, int]
) -> Iterator[str]:
    """Yield what is not as it must be, in words.

    Args:
        run: the run as it stands at the end.
        facts: all of its facts.
        requests: everything a model was sent.
        effects: how often each `once` call was begun, by its id.
    """
    yield from _unpaired(requests)
    yield from _inputs(run, facts)
    yield from _halts(run, facts)
    yield from _branches(facts)
    yield from _questions(run, facts)
    for call_id, count in effects.items():
        if count > 1:
            yield f"the once call {call_id} was made {count} times"
    yield from results_in(facts)
    yield from calls_of_states(facts)


def results_in(facts: Sequence[e.AnyFact]) -> Iterator[str]:
    """Yield calls with several results. What a person is asked of a call replaces what it had."""
    returned: Counter[str] = Counter()
    for fact in facts:
        if isinstance(fact, e.ToolReturned):
            returned[fact.call_id] += 1
        elif isinstance(fact, e.QuestionAsked):
            returned[fact.call_id] = 0
    for call_id, count in returned.items():
        if count > 1:
            yield f"the call {call_id} has {count} results"


def calls_of_states(facts: Sequence[e.AnyFact]) -> Iterator[str]:
    """Yield states that made their own `once` call again in one visit, though it may have happened."""
    once: set[str] = set()
    at: dict[str, str] = {}
    made: dict[tuple[str, str], list[str]] = {}
    outcomes: dict[str, Outcome] = {}
    for fact in facts:
        here = (fact.branch, at.get(fact.branch, ""))
        match fact:
            case e.RunStarted():
                tools = fact.definition.tools
                once = {name for name, tool in tools.items() if tool.effect == "once"}
            case e.StateTransition():
                at[fact.branch] = fact.target
                if not fact.resumes:
                    made.pop((fact.branch, fact.target), None)
            case e.StateRetried():
                made.pop(here, None)
            case e.BranchStarted():
                path = f"{fact.branch}/{fact.name}".lstrip("/")
                made = {key: calls for key, calls in made.items() if not _is_within(key[0], path)}
            case e.ToolReturned():
                outcomes[fact.call_id] = fact.outcome
            case e.ToolCalled(agent="") if fact.name in once:
                calls = made.setdefault(here, [])
                sure = ("not_run", "denied", "failed")
                if any(outcomes.get(call, "unknown") not in sure for call in calls):
                    yield f"the state {here[1]}{_in(fact)} called {fact.name} again"
                calls.append(fact.call_id)
            case _:
                pass


def _unpaired(requests: Sequence[ModelRequest]) -> Iterator[str]:
    for number, request in enumerate(requests, 1):
        for message in request.messages:
            calls = [call.id for call in message.calls]
            results = [result.call_id for result in message.results]
            if calls != results:
                yield (
                    f"request {number} ({request.agent} in {request.state}) has results for "
                    f"{results or 'none'} where the calls are {calls}"
                )


def _inputs(run: Run, facts: Sequence[e.AnyFact]) -> Iterator[str]:
    disposed = Counter(fact.input_id for fact in facts if isinstance(fact, e.InputDisposed))
    received = Counter(fact.input_id for fact in facts if isinstance(fact, e.InputReceived))
    for input_id, count in received.items():
        if count > 1:
            yield f"the input {input_id} was received {count} times"
        if disposed[input_id] > 1:
            yield f"the input {input_id} has {disposed[input_id]} dispositions"
        if not disposed[input_id] and run.is_over:
            yield f"the input {input_id} has no disposition"


def _questions(run: Run, facts: Sequence[e.AnyFact]) -> Iterator[str]:
    asked = Counter(fact.question_id for fact in facts if isinstance(fact, e.QuestionAsked))
    for question_id, count in asked.items():
        if count > 1:
            yield f"{count} questions have the id {question_id}"
    for question in run.inbox.open_questions if run.is_over else ():
        yield f"the question {question.id} is open though the run is over"


def _halts(run: Run, facts: Sequence[e.AnyFact]) -> Iterator[str]:
    """Yield halts for words that did not lead to `resume`, else `start`, before anything else.

    Each branch is halted by itself: what it leads to is a state of the branch.
    """
    now = Run(id=run.id)
    waiting: dict[str, tuple[e.Interrupted, str]] = {}
    for fact in facts:
        now = apply(now, fact)
        if isinstance(fact, e.Interrupted):
            waiting.pop(fact.branch, None)
            here = branch_at(now, fact.branch)
            if fact.leads_to == "words" and here is not None:
                waiting[fact.branch] = (fact, resume_target(here))
        elif isinstance(fact, e.StateTransition) and fact.branch in waiting:
            halt, target = waiting.pop(fact.branch)
            if fact.target != target:
                yield f"the halt of epoch {halt.epoch}{_in(fact)} led to {fact.target!r}"
        elif isinstance(fact, _ENDS):
            inside = [path for path in waiting if _is_within(path, fact.branch)]
            for path in inside:
                del waiting[path]
    for halt, _ in waiting.values():
        yield f"the halt of epoch {halt.epoch}{_in(halt)} led nowhere"


def _branches(facts: Sequence[e.AnyFact]) -> Iterator[str]:
    """Yield branches that were begun twice, or in which things happened after their end."""
    open_ones: set[str] = set()
    ended: set[str] = set()
    for number, fact in enumerate(facts, 1):
        if fact.branch and fact.branch in ended:
            yield f"fact {number} is of the branch {fact.branch}, which had ended"
        if isinstance(fact, e.BranchStarted):
            path = f"{fact.branch}/{fact.name}".lstrip("/")
            if path in open_ones:
                yield f"the branch {path} was begun again while it was under way"
            open_ones.add(path)
            ended.discard(path)
        elif isinstance(fact, _ENDS) and fact.branch:
            ended.add(fact.branch)
            open_ones.discard(fact.branch)
        elif isinstance(fact, e.StateTransition) and not fact.resumes:
            # The state is left: branches that were halted in it may be left behind for good.
            inside = {path for path in open_ones if _is_within(path, fact.branch)}
            open_ones -= inside - {fact.branch}


def _is_within(path: str, branch: str) -> bool:
    return not branch or path == branch or path.startswith(f"{branch}/")


def _in(fact: e.AnyFact) -> str:
    return f" in the branch {fact.branch}" if fact.branch else ""
