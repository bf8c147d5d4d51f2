"""The request for a summary of older turns: the agent's own role and model, and no tool."""

from midstream.core.conversation import USER, Message
from midstream.core.guidance import system_message
from midstream.core.run import Run, definition_of
from midstream.core.summaries import SUMMARY_STATE, TRANSCRIPTS, asked_for_summary
from midstream.language.errors import UserMistake
from midstream.runtime.ports import Model, ModelReply, ModelRequest, ReplyListener


def summary_request(run: Run, *, most: int = TRANSCRIPTS[0]) -> ModelRequest:
    """Return the request the run is owed for the summary that is being written.

    `most` characters of the conversation are shown; what is older is left out.
    """
    assert run.compacting is not None, "nobody is owed a summary"
    agent = run.compacting.agent
    definition = definition_of(run)
    role = definition.roles[run.plan.agents[agent].agent_role]
    return ModelRequest(
        agent=agent,
        system=system_message(definition, role),
        messages=(
            Message(role="user", text=asked_for_summary(run.compacting, most=most), author=USER),
        ),
        level=role.level,
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

    def calling(self) -> None:
        """Hear that the model has begun to ask for a tool, which it has not."""

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
        self._listener.status(text)
