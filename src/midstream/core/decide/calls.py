"""Tool calls begin: a question to the person, an approval to be given, or the call itself."""

from collections.abc import Sequence

import msgspec

from midstream.core.call_notes import COMMAND, REFUSED
from midstream.core.conversation import ToolCall
from midstream.core.decide.budgets import exceeded
from midstream.core.decide.delegating import delegate
from midstream.core.decide.proposing import propose
from midstream.core.decide.transaction import Story
from midstream.core.events import QuestionAsked, ToolCalled
from midstream.core.inputs import CallReviewed, RequestedCall
from midstream.core.pending import review_key
from midstream.core.run import OpenCall, Run
from midstream.language.names import DELEGATE, PROPOSE_PLAN, REQUEST_USERS_INPUT
from midstream.language.patterns import fits_whole
from midstream.language.spec import ToolSpec
from midstream.safety.capability import SHOWN, quoted
from midstream.safety.redaction import holds_placeholder


def unusable(requested: RequestedCall, offered: dict[str, ToolSpec]) -> str:
    """Return why a call as a model sent it can only fail, "" if it may do something."""
    if requested.name not in offered:
        names = ", ".join(sorted(offered)) or "none"
        return f"There is no tool {requested.name!r}. Tools: {names}."
    return requested.problem


def begin_call(
    story: Story,
    agent: str,
    call: ToolCall,
    offered: dict[str, ToolSpec],
    *,
    is_looked_at: bool = False,
) -> None:
    """Begin a call an agent, or a state of its own (`agent` ""), makes of one of the offered tools.

    Its turn has come (`Turn.due`). One that is to be reviewed, or that hooks have a say in, stays new: it
    is looked at first, if it is not by now (`is_looked_at`).
    """
    requested = RequestedCall(name=call.name, arguments=call.arguments)
    if problem := unusable(requested, offered):
        # What the run follows may have changed since the call was made.
        story.close_call(call.id, "failed", problem)
        return
    spec = offered[call.name]
    if agent and (over := exceeded(story, is_call=True)):
        story.close_call(call.id, "not_run", f"Not run: {over}")
    elif call.name == REQUEST_USERS_INPUT:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )
        _ask_user(story, agent, call)
    elif call.name == PROPOSE_PLAN:
        propose(story, agent, call.id, call.arguments)
    elif call.name == DELEGATE:
        delegate(story, agent, call)
    elif spec.reviewed or (not is_looked_at and is_hooked(story.whole.run.hooked, call.name)):
        pass
    elif spec.needs_approval and call.name not in story.whole.run.allowed:
        _ask_approval(story, agent, call)
    else:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )


def reviewed(
    story: Story,
    agent: str,
    open_call: OpenCall,
    review: CallReviewed,
    offered: dict[str, ToolSpec],
) -> None:
    """Make a call whose review has come, ask about it, or refuse it.

    Where a person wrote the arguments themselves, writing them was the yes. Of a tool that is not to be
    reviewed the review only said that its turn has come.
    """
    for ran in review.hooks:
        story.tell(ran)
    open_call = call_of(story.run, open_call.call.id)
    # What a hook changed is not what a person wrote: it is judged, and asked about, as any other.
    is_persons_own = open_call.edited is not None and open_call.hooked is None
    call = msgspec.structs.replace(open_call.call, arguments=open_call.arguments)
    spec = offered.get(call.name)
    is_asked = call.name in (REQUEST_USERS_INPUT, PROPOSE_PLAN)
    is_to_be_judged = open_call.edited is not None or (spec is not None and spec.reviewed)
    is_to_be_judged = is_to_be_judged and not is_asked
    if review.kind != "deny" and not is_to_be_judged:
        begin_call(story, agent, call, offered, is_looked_at=True)
        return
    granted: tuple[str, ...] = ()
    if review.kind == "deny":
        hint = f" {review.hint}" if review.hint else ""
        story.close_call(call.id, "denied", f"{REFUSED}{review.reason}{hint}")
        return
    if agent and (over := exceeded(story, is_call=True)):
        # Calls before it in the same reply may have used the budget up.
        story.close_call(call.id, "not_run", f"Not run: {over}")
        return
    if review.kind == "ask" and not is_persons_own and not _has_all(story, review.asks):
        _ask_about(story, agent, call, review)
        return
    if review.kind == "ask":
        granted = review.asks
    story.tell(
        ToolCalled(
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            agent=agent,
            granted=granted,
        )
    )


def reviewed_within(story: Story, review: CallReviewed) -> bool:
    """Let a call go on that an external agent asks about, ask a person, or refuse it.

    False: it is none of such.
    """
    run, turn = story.run, story.run.visit.turn
    if turn is None or run.visit.phase != "turn" or not turn.prompted:
        return False
    call = next((c for c in turn.external if review_key(run, c.call.id) == review.key), None)
    if call is None:
        return False
    if call.status != "running":
        return True
    for ran in review.hooks:
        story.tell(ran)
    needed = [ask for ask in review.asks if not ask.startswith(SHOWN)]
    if review.kind == "deny":
        hint = f" {review.hint}" if review.hint else ""
        story.close_call(call.call.id, "denied", f"{REFUSED}{review.reason}{hint}")
    elif over := exceeded(story, is_call=True):
        story.close_call(call.call.id, "denied", f"{REFUSED}{over}")
    elif review.kind == "allow" or are_granted(review.asks, story.whole.run.allowed):
        pass
    elif run.approvals == "deny":
        flags = " ".join(f"--allow {quoted((ask,))}" for ask in needed)
        text = f"{REFUSED}{review.reason} {_NOBODY} {flags}."
        story.close_call(call.call.id, "denied", text)
    else:
        story.tell(
            QuestionAsked(
                question_id=story.next_question_id(),
                number=story.next_number(),
                kind="approval",
                text=f"{call.call.name}\n{review.shows}" if review.shows else call.call.name,
                agent=turn.agent,
                call_id=call.call.id,
                asks=review.asks,
                why=review.reason,
            )
        )
    return True


def is_hooked(patterns: Sequence[str], name: str) -> bool:
    """Return whether hooks have a say in the calls of a tool."""
    return any(fits_whole(pattern, name) for pattern in patterns)


def call_of(run: Run, call_id: str) -> OpenCall:
    """Return an open call of the turn under way as it stands now."""
    assert run.visit.turn is not None, "only a turn has calls"
    return next(c for c in run.visit.turn.calls if c.call.id == call_id)


def _has_all(story: Story, asks: tuple[str, ...]) -> bool:
    """Return whether all was granted for the run, be it while the review was under way."""
    return are_granted(asks, story.whole.run.allowed)


def are_granted(asks: Sequence[str], allowed: Sequence[str]) -> bool:
    """Return whether a run's grants hold all these capabilities, of which there are some.

    None of them holds one with a secret taken out: what stands there may be another one.
    """
    needed = [ask for ask in asks if not ask.startswith(SHOWN)]
    return bool(needed) and all(ask in allowed and not holds_placeholder(ask) for ask in needed)


_NOBODY = "Nobody is there to give a yes. A person can allow it with"


def _ask_about(story: Story, agent: str, call: ToolCall, review: CallReviewed) -> None:
    if story.run.approvals == "deny":
        needed = [ask for ask in review.asks if not ask.startswith(SHOWN)]
        flags = " ".join(f"--allow {quoted((ask,))}" for ask in needed)
        story.close_call(
            call.id,
            "denied",
            f"{REFUSED}{review.reason} {_NOBODY} {flags}.",
        )
        return
    command = call.arguments.get(COMMAND)
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="approval",
            text=f"{call.name}\n{review.shows}" if review.shows else call.name,
            agent=agent,
            call_id=call.id,
            asks=review.asks,
            why=review.reason,
            command=command if isinstance(command, str) else "",
        )
    )


def _ask_user(story: Story, agent: str, call: ToolCall) -> None:
    schema = call.arguments.get("schema")
    choices = call.arguments.get("choices")
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="question",
            text=str(call.arguments.get("question", "")),
            agent=agent,
            call_id=call.id,
            choices=tuple(map(str, choices)) if isinstance(choices, list) else (),
            schema=schema if isinstance(schema, dict) and schema else None,
        )
    )


def _ask_approval(story: Story, agent: str, call: ToolCall) -> None:
    if story.run.approvals == "deny":
        story.close_call(
            call.id,
            "denied",
            f"Refused: {call.name} needs approval and nobody is there to give it. "
            f"A person can allow it with --allow {call.name}.",
        )
        return
    arguments = msgspec.json.encode(call.arguments).decode()
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="approval",
            text=f"{call.name} {arguments}",
            agent=agent,
            call_id=call.id,
        )
    )
