"""Tool calls begin: a question to the person, an approval to be given, or the call itself."""

from collections.abc import Sequence
from typing import Final

import msgspec

from midstream.core.addressing import branch_at
from midstream.core.budgets import exceeded
from midstream.core.conversation import ToolCall
from midstream.core.events import QuestionAsked, ToolCalled
from midstream.core.inputs import CallReviewed, RequestedCall
from midstream.core.names import REQUEST_USERS_INPUT, Json
from midstream.core.question import Question
from midstream.core.run import OpenCall, Run
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


def with_command(run: Run, question_id: str, command: str) -> dict[str, Json] | None:
    """Return what an open approval's call would run with, had it this `command` instead of its own.

    None: it asks about no call that has a command, or is closed.
    """
    question = next((q for q in run.open_questions if q.id == question_id), None)
    here = None if question is None else branch_at(run, question.branch)
    if question is None or here is None or here.turn is None:
        return None
    call = next((c for c in here.turn.calls if c.call.id == question.call_id), None)
    if call is None or not isinstance(call.arguments.get(COMMAND), str):
        return None
    return {**call.arguments, COMMAND: command}


COMMAND: Final = "command"
"""The argument of a call that a person may change before allowing it."""

_CHANGED: Final = "The user changed the arguments before it ran, to "


def with_change(open_call: OpenCall, text: str) -> str:
    """Return a call's result with what the model has to know of arguments a person changed."""
    if open_call.edited is None:
        return text
    return f"{_CHANGED}{msgspec.json.encode(open_call.edited).decode()}.\n\n{text}"


def without_change(text: str) -> str:
    """Return a call's result as its tool gave it, with nothing that `with_change` has added."""
    return text.partition(".\n\n")[2] if text.startswith(_CHANGED) else text


def shown_of(question: Question) -> str:
    """Return what an approval shows of the call, without the tool's name before it."""
    return question.text.partition("\n")[2]


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


REFUSED: Final = "Refused: "
"""What the result of a call begins with that policy refused."""


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
