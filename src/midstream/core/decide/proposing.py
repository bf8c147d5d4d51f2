"""An agent proposes a plan: the card of it, what a person makes of that, and what the agent is told."""

from midstream.core import events as e
from midstream.core.decide.transaction import Story
from midstream.core.inputs import AnyInput, Approve
from midstream.core.proposal import (
    CHANGED,
    Proposal,
    proposal_of,
    seal_of,
    shown,
    told_of_mode,
    told_of_no,
    told_of_yes,
    yes_in,
)
from midstream.core.question import Question
from midstream.core.run import OpenCall, Run
from midstream.core.todo import LIST_TOOL
from midstream.language.errors import UserMistake
from midstream.language.names import PROPOSE_PLAN, Json
from midstream.language.plan import tools_for
from midstream.language.spec import ToolSpec
from midstream.safety.capability import PermissionMode

IN_A_BRANCH = (
    "Only the agent the user talks to proposes a plan. "
    "Give yours in your last words: they are handed back."
)


def propose(story: Story, agent: str, call_id: str, arguments: dict[str, Json]) -> None:
    """Park a call of `propose_plan` behind its card, in whatever permission mode it is made.

    A headless run, too: nobody is there to approve it, so that the plan is what the run comes to.
    """
    if not agent or story.path:
        story.close_call(call_id, "failed", IN_A_BRANCH)
        return
    try:
        proposal = proposal_of(arguments)
    except UserMistake as mistake:
        story.close_call(call_id, "failed", str(mistake))
        return
    story.tell(e.ToolCalled(call_id=call_id, name=PROPOSE_PLAN, arguments=arguments, agent=agent))
    _ask(story, agent, call_id, proposal)


def _ask(story: Story, agent: str, call_id: str, proposal: Proposal) -> None:
    story.tell(
        e.QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="approval",
            text=shown(proposal),
            agent=agent,
            call_id=call_id,
            asks=(seal_of(proposal),),
            about="plan",
        )
    )


def decided(story: Story, question: Question, input: Approve, offered: dict[str, ToolSpec]) -> None:
    """Take a person's word on a plan. One that they changed is shown as it is now, and asked about."""
    open_call = _call_of(story.run, question)
    if not input.granted:
        story.tell(e.QuestionAnswered(question_id=question.id, answer="no"))
        story.close_call(question.call_id, "denied", told_of_no(input.note))
        return
    try:
        proposal = proposal_of(open_call.arguments if input.edited is None else input.edited)
    except UserMistake:
        return  # what was written is no plan: the card stays as it is
    # What an import says was shown need not be what its call holds.
    if input.edited is not None or question.asks != (seal_of(proposal),):
        story.tell(e.QuestionAnswered(question_id=question.id, answer=CHANGED))
        if input.edited is not None:
            story.tell(e.CallEdited(call_id=question.call_id, arguments=input.edited))
        _ask(story, question.agent, question.call_id, proposal)
    else:
        story.tell(e.QuestionAnswered(question_id=question.id, answer=yes_in(input.mode)))
        told = told_of_yes(
            proposal,
            input.mode,
            was_changed=open_call.edited is not None,
            keeps_list=LIST_TOOL in offered,
        )
        story.close_call(question.call_id, "completed", told)


def _call_of(run: Run, question: Question) -> OpenCall:
    assert run.visit.turn is not None, "only a turn parks calls"
    return next(c for c in run.visit.turn.calls if c.call.id == question.call_id)


def approved_mode(story: Story, input: AnyInput) -> PermissionMode | None:
    """Return the mode that an approved plan leads to: nothing has switched to it yet."""
    is_approved = isinstance(input, Approve) and any(
        isinstance(fact, e.ToolReturned)
        and fact.name == PROPOSE_PLAN
        and fact.outcome == "completed"
        for fact in story.facts
    )
    return input.mode if is_approved and isinstance(input, Approve) else None


def tell_mode(story: Story, mode: PermissionMode) -> None:
    """Tell the agent whose request is owed of the mode, where it became `plan` or is so no longer.

    It is a message of its own: what stands before it is as it was. Only an agent that may propose a plan
    is told; any other hears of the mode where it is refused something.
    """
    run, turn = story.run, story.run.visit.turn
    if turn is None or run.definition is None or not turn.agent:
        return
    agent = run.plan.agents[turn.agent]
    was_plan = run.modes.get(agent.context) == "plan"
    if was_plan == (mode == "plan"):
        return
    tools = tools_for(run.definition, agent, run.plan.states[run.visit.state])
    if any(tool.name == PROPOSE_PLAN for tool in tools):
        story.tell(e.ModeTold(mode=mode, context=agent.context, text=told_of_mode(mode)))
