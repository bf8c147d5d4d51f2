"""What an external agent is told: what is new since its last whole reply, or all of it in a new session.

Such an agent keeps its conversation itself. Cut in the middle of a reply it may forget what it had said,
what it was asked, or neither; nobody can tell. So what no whole reply of it has answered is told again,
and its own words are marked as such.
"""

from collections.abc import Sequence

import msgspec

from midstream.core.conversation import GO_ON, Message, seen_by
from midstream.core.guidance import system_message
from midstream.core.inputs import RequestedCall
from midstream.core.run import Run, definition_of
from midstream.language.plan import parsing_tools
from midstream.language.spec import ParsingTool
from midstream.runtime.agent import IN_WORKTREE_WORDS, WorkflowAgent
from midstream.runtime.ports import Validator
from midstream.safety.decoding import BadValue, decode_arguments

CUT = "[You were interrupted in the middle of your reply, and may not remember it. You had said so far:]"
CUT_WITHOUT_WORDS = "[You were interrupted before you had said anything.]"
BEFORE = "[This conversation has gone on for a while. What was said before:]"
NOW = "[What was said since, which you are to answer now:]"
DONE = "[What you had done, and what is known of how it ended:]"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an external agent is told: `text` in the `session` it has, "" for none; `whole` in a new one.

    `told` counts the messages at the end of its context that `text` holds; `news` are they as it sees them.
    """

    text: str
    whole: str
    session: str
    told: int
    news: tuple[Message, ...]


def told_to(run: Run, agent: WorkflowAgent) -> Told:
    """Return what an external agent is told when its turn begins, or is asked on. Looks at all messages."""
    messages = list(run.contexts[agent.spec.context])
    known = run.sessions.get(agent.name)
    if known is not None and known.run != run.id:
        known = None  # that of the run this one was forked from, which goes on there
    told = len(messages) if known is None else known.unheard
    news = _seen(messages[len(messages) - told :], agent)
    after = _after(run, agent)
    system = system_message(definition_of(run), agent.role)
    system += IN_WORKTREE_WORDS if run.branch.worktrees else ""
    return Told(
        text=_joined(_as_news(news) if news or not after else "", after),
        whole=_joined(system.strip(), _as_whole(_seen(messages, agent)), after),
        session="" if known is None else known.id,
        told=told,
        news=news,
    )


def _seen(messages: Sequence[Message], agent: WorkflowAgent) -> tuple[Message, ...]:
    return seen_by(messages, agent=agent.name, side=agent.spec.role)


def _after(run: Run, agent: WorkflowAgent) -> str:
    """Return what stands behind the conversation: what was wrong with a reply, and how to answer."""
    turn = run.visit.turn
    wrong = turn.corrections[-1].problem if turn is not None and turn.corrections else ""
    tools = parsing_tools(agent.role, run.plan.states.get(run.visit.state))
    return _joined(wrong, agent.role.reminder, _asking_for(tools[0]) if tools else "")


def _as_news(news: Sequence[Message]) -> str:
    if not news:
        return GO_ON
    parts: list[str] = []
    is_cut = False
    for message in news:
        if message.role == "assistant":
            parts.append(_own(message))
            is_cut = True
        elif is_cut:
            parts += [NOW, message.text]
            is_cut = False
        else:
            parts.append(message.text)
    if is_cut:
        parts.append(GO_ON)
    return _joined(*parts)


def _as_whole(messages: Sequence[Message]) -> str:
    last = max((n for n, each in enumerate(messages) if each.role == "assistant"), default=-1)
    system = [each.text for each in messages if each.role == "system"]
    said = [each for each in messages[: last + 1] if each.role != "system"]
    new = [each.text for each in messages[last + 1 :] if each.role != "system"]
    if not said:
        return _joined(*system, *(new or [GO_ON]))
    past = [
        _own(each) if each.role == "assistant" else f"[Somebody said:]\n{each.text}"
        for each in said
    ]
    return _joined(*system, BEFORE, *past, NOW, *(new or [GO_ON]))


def _own(message: Message) -> str:
    """Return an agent's own words, marked, with what it did."""
    if message.interrupted:
        words = f"{CUT}\n{message.text}" if message.text else CUT_WITHOUT_WORDS
    else:
        words = f"[You said:]\n{message.text}"
    outcomes = {result.call_id: result for result in message.results}
    done = [
        f"- {call.name}: {call.arguments.get('title') or ''}: {outcomes[call.id].outcome}"
        for call in message.calls
        if call.id in outcomes and "title" in call.arguments
    ]
    return "\n".join((words, DONE, *done)) if done else words


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# --- structured replies ------------------------------------------------------------------------


def _asking_for(tool: ParsingTool) -> str:
    schema = msgspec.json.encode(tool.parameters).decode()
    return (
        "End your answer with one JSON object in a block of its own, that begins with ```json and ends "
        f"with ```. It has to fit this JSON Schema:\n{schema}"
    )


def structured(
    text: str, tools: Sequence[ParsingTool], validate: Validator
) -> tuple[RequestedCall, ...]:
    """Return the structured reply that stands in an external agent's words, as the call of its tool.

    Takes a while where the words are long.
    """
    if not tools:
        return ()
    tool = tools[0]
    block = _last_object(text)
    if not block:
        problem = (
            "Your answer holds no JSON object. End it with one, in a block of its own: ```json"
        )
        return (RequestedCall(name=tool.name, arguments={}, problem=problem),)
    try:
        arguments = decode_arguments(block)
    except BadValue as error:
        problem = f"The JSON at the end of your answer cannot be used: {error}."
        return (RequestedCall(name=tool.name, arguments={}, problem=problem),)
    misfit = validate(arguments, tool.parameters)
    problem = f"The JSON at the end of your answer does not fit: {misfit}" if misfit else ""
    return (RequestedCall(name=tool.name, arguments=arguments, problem=problem),)


def _last_object(text: str) -> str:
    """Return the text of the last JSON block, or of the one object that the words are; "" for none."""
    _, fence, rest = text.rpartition("```json")
    if fence:
        return rest.partition("```")[0].strip()
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else ""
