"""What must be true of a run whatever happens to it, read off its facts and what models were sent."""

from collections import Counter
from collections.abc import Iterator, Sequence

from midstream.core.apply import resume_target
from midstream.core.events import (
    AnyFact,
    InputDisposed,
    InputReceived,
    Interrupted,
    RunFailed,
    RunFinished,
    RunStopped,
    StateTransition,
    ToolReturned,
)
from midstream.core.run import Run
from midstream.ports import ModelRequest


def broken_by(
    run: Run, facts: Sequence[AnyFact], requests: Sequence[ModelRequest], effects: dict[str, int]
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
    for call_id, count in effects.items():
        if count > 1:
            yield f"the once call {call_id} was made {count} times"
    returned = Counter(fact.call_id for fact in facts if isinstance(fact, ToolReturned))
    for call_id, count in returned.items():
        if count > 1:
            yield f"the call {call_id} has {count} results"


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


def _inputs(run: Run, facts: Sequence[AnyFact]) -> Iterator[str]:
    disposed = Counter(fact.input_id for fact in facts if isinstance(fact, InputDisposed))
    received = Counter(fact.input_id for fact in facts if isinstance(fact, InputReceived))
    for input_id, count in received.items():
        if count > 1:
            yield f"the input {input_id} was received {count} times"
        if disposed[input_id] > 1:
            yield f"the input {input_id} has {disposed[input_id]} dispositions"
        if not disposed[input_id] and run.is_over:
            yield f"the input {input_id} has no disposition"


def _halts(run: Run, facts: Sequence[AnyFact]) -> Iterator[str]:
    """Yield halts for words that did not lead to `resume`, else `start`, before anything else."""
    waiting: Interrupted | None = None
    for fact in facts:
        if isinstance(fact, Interrupted):
            waiting = fact if fact.leads_to == "words" else None
        elif isinstance(fact, StateTransition) and waiting is not None:
            if run.plan is not None and fact.target != resume_target(run):
                yield f"the halt of epoch {waiting.epoch} led to {fact.target!r}"
            waiting = None
        elif isinstance(fact, RunFinished | RunFailed | RunStopped):
            waiting = None
    if waiting is not None:
        yield f"the halt of epoch {waiting.epoch} led nowhere"
