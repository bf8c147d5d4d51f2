"""What stands open in a run, and within what: each is a span as long as it does."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from midstream.core.pending import handler_key, handler_of, request_key
from midstream.core.run import Run
from midstream.core.summaries import summary_key
from midstream.language.names import STOP
from midstream.telemetry import names as n
from midstream.telemetry.figures import Attributes

Key = tuple[int | str, ...]
"""Which of the things under way: as the keys of effects, with a kind at the end."""

ROOT: Final[Key] = ("run",)


class Thing(msgspec.Struct, frozen=True):
    """Something that stands open. `around` is the key of what it is a part of."""

    key: Key
    kind: str
    around: Key
    name: str
    attributes: Attributes


def under_way(run: Run, workflow: str, known: Mapping[Key, object]) -> Iterator[Thing]:
    """Yield what stands open in a run, what is around before what is within.

    Args:
        run: the run.
        workflow: what its workflow is called.
        known: what stood open before.
    """
    attributes: Attributes = {n.OPERATION: n.INVOKE_WORKFLOW, n.AGENT: workflow}
    yield Thing(ROOT, "run", (), f"{n.INVOKE_WORKFLOW} {workflow}", attributes)
    if run.compacting is not None:
        agent = run.compacting.agent
        of: Attributes = {n.OPERATION: n.CHAT, n.AGENT: agent, n.COMPACTED: True}
        yield Thing(summary_key(run.compacting.number), "model", ROOT, n.CHAT, of)
    yield from _within(run, (), ROOT, known, is_owed=not run.suspended)


def _within(
    run: Run, prefix: Key, around: Key, known: Mapping[Key, object], *, is_owed: bool
) -> Iterator[Thing]:
    # Facts that were journaled together are heard one by one: a run between two of them stands in no way
    # that it is left in, so that `pending` cannot be asked.
    visit = run.visit
    is_end = visit.state == STOP and visit.phase == "leaving"
    if not visit.state or is_end or visit.phase in ("new", "held", "ended"):
        yield from _questions(run, prefix, around, {})
        return
    is_owed = is_owed and not run.usage.is_over_budget
    at = (*prefix, visit.step)
    where = {n.BRANCH: run.branch.path} if run.branch.path else {}
    of: Attributes = {n.STATE: visit.state, **where}
    inner: Key = (*at, "state")
    yield Thing(inner, "state", around, f"state {visit.state}", of)
    state, calls = inner, {}
    if is_owed and visit.phase in ("pre", "post", "transition"):
        handler, slot = handler_of(run)
        about: Attributes = {n.HANDLER: handler, n.SLOT: slot, **of}
        yield Thing((*prefix, *handler_key(run)), "handler", state, f"handler {handler}", about)
    turn = visit.turn
    if turn is not None and visit.phase in ("turn", "call", "halting"):
        if turn.agent:
            inner = (*at, "turn", visit.attempts)
            about = {n.OPERATION: n.INVOKE_AGENT, n.AGENT: turn.agent, **of}
            yield Thing(inner, "turn", state, f"{n.INVOKE_AGENT} {turn.agent}", about)
            if is_owed and visit.replying is not None:
                about = {n.OPERATION: n.CHAT, n.AGENT: turn.agent, **of}
                yield Thing((*prefix, *request_key(run)), "model", inner, n.CHAT, about)
        for call in turn.calls:
            key = (*at, "tool", call.call.id)
            # One whose outcome a person is asked for has not ended yet.
            if call.status not in ("running", "stopping") and not (
                key in known and call.status != "done"
            ):
                continue
            calls[call.call.id] = key
            about = {n.OPERATION: n.EXECUTE_TOOL, n.TOOL: call.call.name, n.TOOL_CALL: call.call.id}
            about |= {
                n.TOOL_TYPE: "function",
                **({n.AGENT: turn.agent} if turn.agent else {}),
                **of,
            }
            yield Thing(key, "tool", inner, f"{n.EXECUTE_TOOL} {call.call.name}", about)
    yield from _questions(run, prefix, inner, calls)
    for name, branch in visit.branches.items():
        if branch.is_over:
            continue
        key = (*at, "in", name)
        about = {
            n.BRANCH: branch.branch.path,
            **({n.ROLE: branch.branch.role} if branch.branch.role else {}),
        }
        yield Thing(key, "branch", calls.get(branch.branch.call_id, state), f"branch {name}", about)
        yield from _within(branch, key, key, known, is_owed=is_owed)


def _questions(run: Run, prefix: Key, around: Key, calls: Mapping[str, Key]) -> Iterator[Thing]:
    for question in run.inbox.open_questions:
        if question.branch != run.branch.path:
            continue  # a branch of it asked, and is come to there
        about: Attributes = {n.QUESTION: question.kind}
        if question.about:
            about[n.ABOUT] = question.about
        if question.agent:
            about[n.AGENT] = question.agent
        key = (*prefix, "question", question.id)
        yield Thing(
            key,
            "question",
            calls.get(question.call_id, around),
            f"wait for a person: {question.kind}",
            about,
        )


def prefix_of(run: Run, path: str) -> Key:
    """Return what the keys of a branch's things begin with."""
    prefix: Key = ()
    for name in path.split("/") if path else ():
        prefix = (*prefix, run.visit.step, "in", name)
        run = run.visit.branches.get(name, run)
    return prefix


def owner_at(run: Run, key: Key) -> Run:
    """Return the run or branch within which a thing of that key stands open."""
    while len(key) > 3 and key[1] == "in":
        run, key = run.visit.branches[str(key[2])], key[3:]
    return run


def is_halting(run: Run, prefix: Key) -> bool:
    """Return whether what was halted in a run, or in a branch of it, still has something to stop."""
    while prefix and run.visit.step == prefix[0] and prefix[2] in run.visit.branches:
        run, prefix = run.visit.branches[str(prefix[2])], prefix[3:]
    return not prefix and run.visit.phase == "halting"
