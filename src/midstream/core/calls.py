"""Tool calls begin: a question to the person, an approval to be given, or the call itself."""

import msgspec

from midstream.core.budgets import exceeded
from midstream.core.conversation import ToolCall
from midstream.core.events import QuestionAsked, ToolCalled
from midstream.core.inputs import RequestedCall
from midstream.core.names import REQUEST_USERS_INPUT
from midstream.core.spec import ToolSpec
from midstream.core.story import Story


def begin_call(
    story: Story,
    agent: str,
    call: ToolCall,
    requested: RequestedCall,
    offered: dict[str, ToolSpec],
) -> None:
    """Begin a call an agent, or a state of its own (`agent` ""), makes of one of the offered tools."""
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
    elif spec.needs_approval and call.name not in story.whole.run.allowed:
        _ask_approval(story, agent, call)
    else:
        story.tell(
            ToolCalled(call_id=call.id, name=call.name, arguments=call.arguments, agent=agent)
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
