"""External agents: what they do in the middle of a prompt, whether they may, and how a prompt ends.

A prompt is one model request: it is cut, steered, kept and asked on as one. But the agent makes its calls
itself meanwhile. We hear of them, judge those it asks about, and say how they ended; where nobody can
know that any more we say so.
"""

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.decide.transaction import Story
from midstream.core.pending import request_key
from midstream.core.run import OpenCall, Run, Turn
from midstream.language.names import Outcome

NOT_PERMITTED = "Not run: the agent was stopped before anybody had allowed it."
CUT_SHORT = "Stopped, outcome unknown: the agent was stopped while it made this call. Verify it."
NOTHING_LOST = "Stopped before it ended; it changes nothing."
UNSAID = "The agent did not say how this ended."


def is_external(run: Run, agent: str) -> bool:
    """Return whether another program speaks for an agent."""
    return agent in run.plan.agents and run.plan.agents[agent].is_external


def _turn(run: Run, key: inputs.EffectKey) -> Turn | None:
    """Return the turn of an external agent that is at work on this prompt, be it that it is halted."""
    turn = run.visit.turn
    if turn is None or not turn.prompted or run.visit.phase not in ("turn", "halting"):
        return None
    return turn if key == request_key(run) else None


def opened(story: Story, input: inputs.AgentOpened) -> None:
    """Tell that a prompt is about to be sent."""
    run, turn = story.run, story.run.visit.replying
    if turn is None or run.usage.is_over_budget:
        return
    if input.key == request_key(run) and is_external(run, turn.agent):
        story.tell(
            e.AgentPrompted(
                agent=turn.agent,
                session=input.session,
                run=input.run,
                told=input.told,
                is_new=input.is_new,
            )
        )


def called(story: Story, input: inputs.AgentCalled) -> None:
    """Tell of a call that the agent makes itself."""
    turn = _turn(story.run, input.key)
    if turn is None or any(call.call.id == input.call.id for call in turn.external):
        return
    story.tell(
        e.ToolCalled(
            call_id=input.call.id,
            name=input.call.name,
            arguments=input.call.arguments,
            agent=turn.agent,
            external=input.effect,
        )
    )


def returned(story: Story, input: inputs.AgentReturned) -> None:
    """Tell how such a call ended. A question about it that is still open is nobody's any more."""
    turn = _turn(story.run, input.key)
    for call in () if turn is None else turn.external:
        if call.call.id == input.call_id and call.status != "done":
            _close(story, call, input.outcome, input.text)


def ended(story: Story, input: inputs.AgentStopped) -> None:
    """Take it that an agent which was halted does nothing more."""
    is_too_late(story, input.key)


def is_too_late(story: Story, key: inputs.EffectKey) -> bool:
    """Return whether a prompt has come to its end in a run that is being halted, and go on with that."""
    if story.run.visit.phase != "halting" or (turn := _turn(story.run, key)) is None:
        return False
    close_calls(story)
    story.tell(e.AgentStopped(agent=turn.agent))
    return True


def close_asked(story: Story, text: str) -> None:
    """Close the calls that nobody has allowed: they are not made."""
    turn = story.run.visit.turn
    for call in () if turn is None else turn.external:
        if call.status == "parked":
            story.close_call(call.call.id, "not_run", text)


def close_calls(story: Story, *, is_told: bool = False) -> None:
    """Close the calls of the agent whose turn it is that have not ended: it makes none of them any more.

    `is_told`: it went on by itself, and did not say how they ended.
    """
    turn = story.run.visit.turn
    for call in () if turn is None else turn.external:
        if call.status == "done":
            continue
        if call.status == "parked":
            _close(story, call, "not_run", NOT_PERMITTED)
        elif is_told:
            _close(story, call, "unknown", UNSAID)
        elif call.effect == "read":
            _close(story, call, "stopped", NOTHING_LOST)
        else:
            _close(story, call, "unknown", CUT_SHORT)


def _close(story: Story, call: OpenCall, outcome: Outcome, text: str) -> None:
    for question in story.own_questions():
        if question.call_id == call.call.id:
            reason = "the agent does not wait for it any more"
            story.tell(e.QuestionSuperseded(question_id=question.id, reason=reason))
    story.close_call(call.call.id, outcome, text)


def seen(story: Story, input: inputs.FilesSeen) -> None:
    """Tell which files have changed unrecorded, and what is known of them from now on."""
    for file in input.files:
        story.tell(file)
    if input.note:
        story.tell(e.WorkflowOutput(text=input.note))
    if input.manifest not in (None, story.run.manifest):
        story.tell(e.WorkspaceSeen(manifest=input.manifest))
