"""Tool calls begin: a question to the person, an approval to be given, or the call itself."""

from collections.abc import Sequence

import msgspec

from midstream.core.budgets import exceeded
from midstream.core.call_words import COMMAND, REFUSED
from midstream.core.conversation import ToolCall
from midstream.core.events import QuestionAsked, ToolCalled
from midstream.core.inputs import CallReviewed, RequestedCall
from midstream.core.names import REQUEST_USERS_INPUT
from midstream.core.run import OpenCall
from midstream.core.safety.capability import SHOWN, quoted
from midstream.core.safety.redaction import holds_placeholder
from midstream.core.spec import ToolSpec
from midstream.core.story import Story


def begin_call(
    story: Story,
    agent: str,
    call: ToolCall,
    requested: RequestedCall,
    offered: dict[str, ToolSpec],
) -> None:
    """Begin a call an agent, or a state of its own (`agent` ""), makes of one of the offered tools.

    One that is to be reviewed stays new: what it would do is looked at first.
    """
    spec = offered.get(call.name)
    if spec is None:
        names = ", ".join(sorted(offered)) or "none"
        story.close_call(call.id, "failed", f"There is no tool {call.name!r}. Tools: {names}.")
    elif requested.problem:
        story.close_call(call.id, "failed", requested.problem)
    elif agent and (over := exceeded(story, is_call=True)):
        story.close_call(call.id, "not_run", f"Not run: {over}")
    elif call.name == REQUEST_USERS_INPUT:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )
        _ask_user(story, agent, call)
    elif spec.reviewed:
        pass
    elif spec.needs_approval and call.name not in story.whole.run.allowed:
        _ask_approval(story, agent, call)
    else:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
        )


def reviewed(story: Story, agent: str, open_call: OpenCall, review: CallReviewed) -> None:
    """Make a call whose review has come, ask about it, or refuse it.

    Where a person wrote the arguments themselves, writing them was the yes.
    """
    call = open_call.call
    granted: tuple[str, ...] = ()
    if review.kind == "deny":
        hint = f" {review.hint}" if review.hint else ""
        story.close_call(call.id, "denied", f"{REFUSED}{review.reason}{hint}")
        return
    if agent and (over := exceeded(story, is_call=True)):
        # It was begun by the same reply as one that has used the budget up meanwhile.
        story.close_call(call.id, "not_run", f"Not run: {over}")
        return
    if review.kind == "ask" and open_call.edited is None and not _has_all(story, review.asks):
        _ask_about(story, agent, call, review)
        return
    if review.kind == "ask":
        granted = review.asks
    story.tell(
        ToolCalled(
            call_id=call.id,
            name=call.name,
            arguments=open_call.arguments,
            agent=agent,
            granted=granted,
        )
    )


def _has_all(story: Story, asks: tuple[str, ...]) -> bool:
    """Return whether all was granted for the run, be it while the review was under way."""
    return are_granted(asks, story.whole.run.allowed)


def are_granted(asks: Sequence[str], allowed: Sequence[str]) -> bool:
    """Return whether a run's grants hold all these capabilities, of which there are some.

    None of them holds one with a secret taken out: what stands there may be another one.
    """
    needed = [ask for ask in asks if not ask.startswith(SHOWN)]
    return bool(needed) and all(ask in allowed and not holds_placeholder(ask) for ask in needed)


def _ask_about(story: Story, agent: str, call: ToolCall, review: CallReviewed) -> None:
    if story.run.approvals == "deny":
        needed = [ask for ask in review.asks if not ask.startswith(SHOWN)]
        flags = " ".join(f"--allow {quoted((ask,))}" for ask in needed)
        story.close_call(
            call.id,
            "denied",
            f"{REFUSED}{review.reason} Nobody is there to give a yes. A person can allow it with {flags}.",
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
