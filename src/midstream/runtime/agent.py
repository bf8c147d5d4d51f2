"""WorkflowAgent: a role at work in a context, and the requests it makes of a model.

That for a summary of older turns is made beside it: with the agent's own role and model, and no tool.
"""

from collections.abc import Callable, Sequence

from midstream.core.append_only import is_read
from midstream.core.conversation import GO_ON, USER, Message, ends_open, seen_by
from midstream.core.events import Usage
from midstream.core.guidance import system_message
from midstream.core.run import Run, definition_of
from midstream.core.summaries import SUMMARY_STATE, TRANSCRIPTS, asked_for_summary
from midstream.language.errors import UserMistake
from midstream.language.plan import parsing_tools, tools_for
from midstream.language.spec import Agent, Role, ToolSpec
from midstream.runtime.ports import Model, ModelReply, ModelRequest, ReplyListener

IN_WORKTREE_WORDS = (
    "\n\nYou work in a git worktree of your own: a copy of the work tree, in another folder. Name files by "
    "their paths from its root. What you change is merged when you are done: commit nothing."
)


class WorkflowAgent:
    """One agent of a run's workflow.

    Args:
        run: the run as it stands; the agent speaks from this moment of it.
        name: the name states use for the agent.
    """

    __slots__ = ("_run", "_state", "name", "role", "spec", "tools")

    def __init__(self, run: Run, name: str) -> None:
        definition = definition_of(run)
        self._run = run
        self._state = run.plan.states.get(run.visit.state)
        self.name = name
        self.spec: Agent = run.plan.agents[name]
        self.role: Role = definition.roles[self.spec.agent_role]
        self.tools: tuple[ToolSpec, ...] = tools_for(definition, self.spec, self._state)

    @property
    def is_ready(self) -> bool:
        """Return whether the conversation is at hand; else looking at it takes a while."""
        return is_read(self._run.contexts[self.spec.context])

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation as the agent sees it now, ending with something to answer."""
        run = self._run
        rest = run.contexts[self.spec.context]
        view: list[Message] = []
        if run.visit.turn is not None and run.visit.turn.agent == self.name:
            for correction in run.visit.turn.corrections:
                before, rest = _split_after(rest, correction.after)
                view += self._seen(before)
                if correction.text:
                    view.append(Message(role="assistant", text=correction.text, author=self.name))
                view.append(Message(role="user", text=correction.problem, author=USER))
        view += self._seen(rest)
        if self.role.reminder:
            view.append(Message(role="user", text=self.role.reminder, author=USER))
        elif ends_open(view) or not any(message.role != "system" for message in view):
            view.append(Message(role="user", text=GO_ON, author=USER))
        return tuple(view)

    def _seen(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return seen_by(messages, agent=self.name, side=self.spec.role)

    def request(self, *, model: str | None = None) -> ModelRequest:
        """Return the request the agent's turn is owed. `model` overrides what the level names."""
        run = self._run
        return ModelRequest(
            run=run.id,
            agent=self.name,
            system=system_message(definition_of(run), self.role)
            + (IN_WORKTREE_WORDS if run.branch.worktrees else ""),
            messages=self.messages(),
            tools=self.tools,
            level=self.role.level,
            effort=self.role.effort,
            model=model,
            must_call=bool(parsing_tools(self.role, self._state)),
            workflow=definition_of(run).workflow.workflow_name,
            state=run.visit.state,
            visit=run.visits.get(run.visit.state, 1),
            request=1 if run.visit.turn is None else run.visit.turn.request,
            common_data=run.common_data,
            variables=run.variables,
            input=run.input,
        )


def _split_after(
    messages: Sequence[Message], last: Message | None
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the messages up to `last`, and the rest. One that is not there (any more) is before all."""
    for position in range(len(messages), 0, -1):
        if messages[position - 1] == last:
            return messages[:position], messages[position:]
    return (), messages


# --- summaries of older turns --------------------------------------------------------------------


def summary_request(run: Run, *, most: int = TRANSCRIPTS[0]) -> ModelRequest:
    """Return the request the run is owed for the summary that is being written.

    `most` characters of the conversation are shown; what is older is left out.
    """
    assert run.compacting is not None, "nobody is owed a summary"
    agent = run.compacting.agent
    definition = definition_of(run)
    role = definition.roles[run.plan.agents[agent].agent_role]
    return ModelRequest(
        run=run.id,
        agent=agent,
        system=system_message(definition, role),
        messages=(
            Message(role="user", text=asked_for_summary(run.compacting, most=most), author=USER),
        ),
        level=role.level,
        effort=role.effort,
        workflow=definition.workflow.workflow_name,
        state=SUMMARY_STATE,
        visit=run.compacting.number,
    )


async def summarised(run: Run, model: Model, listener: ReplyListener) -> ModelReply:
    """Return the summary the run is owed. A model that cannot take all of it is shown less.

    Raises:
        MidstreamError: the model gives none; see the `Model` port.
    """
    shown = summary_request(run)
    for most in TRANSCRIPTS[1:]:
        try:
            return await model.request(shown, Quiet(listener))
        except UserMistake:
            # Most likely it is longer than the model can read, the very reason to be compacted.
            shorter = summary_request(run, most=most)
            if shorter == shown:
                raise
            shown = shorter
    return await model.request(shown, Quiet(listener))


class Quiet:
    """Hears a summary as it streams, and shows none of it: only what the request itself is doing."""

    def __init__(self, listener: ReplyListener) -> None:
        self._listener = listener

    def text(self, delta: str) -> None:
        """Hear a piece of the summary."""

    def thinking(self, delta: str) -> None:
        """Hear a piece of the model's reasoning."""

    def calling(self, name: str) -> None:
        """Hear that the model has begun to ask for a tool, which it has not."""

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
        self._listener.status(text)

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the request has used so far."""
        self._listener.metered(used)
