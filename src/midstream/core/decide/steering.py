"""What the user's words do to a run: answers, interruptions, steers, queues, and the halting list.

The halting list (each step a fact, so that a crash in between is finished, not restarted):

1. `interrupted`: the epoch grows. From here on the run owes its old effects nothing (`pending`), so
   model streams close and results of the old epoch are too late. Words already shown are kept.
2. Running tools: `read` and `idempotent` stop at once; `once` calls are stopped softly and their
   outcome is awaited; calls that had not begun are not run.
3. Every call gets exactly one result, in call order, before the user's words.
4. Open questions close as superseded.
5. The words are disposed of as `interrupted` and the run enters `resume`, else `start`.

More words before step 5 join the same halt. After it they are a new one.
"""

from typing import Literal, TypeAlias

from msgspec import DecodeError
from msgspec.json import decode, encode
from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.call_notes import COMMAND, with_change
from midstream.core.conversation import ToolCall
from midstream.core.decide import compacting
from midstream.core.decide.delegating import hand_in
from midstream.core.decide.external import close_asked, close_calls
from midstream.core.decide.transaction import BranchStory, Story
from midstream.core.decide.transitions import (
    enter,
    failed,
    is_tried_again,
    join_words,
    resume,
    with_unheard,
)
from midstream.core.fold.fold_halts import is_at_rest
from midstream.core.fold.fold_turns import is_question_call
from midstream.core.inputs import Halt, Shown, Stop, UserSaid, Withdraw
from midstream.core.pending import request_key
from midstream.core.pictures import pictures_in
from midstream.core.question import DID_NOT_HAPPEN as DID_NOT_HAPPEN
from midstream.core.question import HAPPENED as HAPPENED
from midstream.core.question import NOT_KNOWN as NOT_KNOWN
from midstream.core.question import OUTCOMES as OUTCOMES
from midstream.core.question import STOP_THERE, Question, chosen, misfit
from midstream.core.routing import Destination, branch_at, policy_of
from midstream.core.run import AROUND, WITHIN, OpenCall, Run, definition_of, question_of
from midstream.language.names import INTERRUPTED, ErrorKind, Json, Policy

STOPPED = "Stopped: the user interrupted."
NOT_RUN = "Not run: the user interrupted first."
UNANSWERED = "Not answered: the user interrupted instead."
RUN_STOPPED = "The run was stopped."
GIVEN_UP = "Stopped: the state ran out of its time or budget."
BEFORE_NEXT_TRY = "Stopped: another branch failed, and the state is tried again."
UNKNOWN = "Stopped, outcome unknown: verify before repeating."

Told: TypeAlias = tuple[str, str, str]
"""What a model is told of a call that is not run, stopped or not answered."""

STORM_COUNT = 6
STORM_WINDOW_S = 10.0
"""So many interruptions in so many seconds are a storm: further words queue, and are told so."""

# --- words ------------------------------------------------------------------------------------


def said(story: Story, input: UserSaid) -> None:
    """Judge a line of the user. The same id again changes nothing."""
    run = story.run
    if input.id in run.inbox.lines:
        return
    if run.suspended:
        story.tell(e.RunResumed())
    for ran in input.hooks:
        story.whole.tell(ran)
    if input.refused:
        _reject(story, input, input.refused)
        return
    asked = run.inbox.open_questions
    waiting_for = next((q for q in asked if q.kind == "input"), None) if asked else None
    if input.to.branch:
        branch = branch_at(run, input.to.branch)
        if branch is None or branch.is_over:
            _reject(story, _to_all(input), f"{input.to.branch} is done")
            return
        if run.visit.phase == "halting":
            input = _to_all(input)  # All of it is being interrupted: the words join that.
    if run.compacting is not None and _is_to_wait(run, input, waiting_for):
        _receive(story, input, "queue", UNTIL_SUMMARY)
        return
    _heard(story, input, waiting_for)
    record = story.run.inbox.lines[input.id]
    has_cut = record.handling == "interrupt" or run.visit.phase == "waiting"
    if has_cut and record.disposition != "rejected":
        compacting.stop(story, input.shown)


def _to_all(input: UserSaid) -> UserSaid:
    """Return words for one branch as words for the whole run, as they were typed."""
    return replace(input, to=Destination(text=input.to.line))


UNTIL_SUMMARY = "it waits until the summary is there"
"""Why words wait that a run could have taken."""


def _is_to_wait(run: Run, input: UserSaid, waiting_for: Question | None) -> bool:
    is_for_run = waiting_for is not None and input.to.question in (None, waiting_for.id)
    return (
        run.visit.phase == "waiting"
        and bool(run.visit.state)
        and is_for_run
        and input.policy == "queue"
    )


def _heard(story: Story, input: UserSaid, waiting_for: Question | None) -> None:
    run = story.run
    if input.to.question is not None:
        _answer(story, input, question_of(run.inbox, input.to.question))
    elif waiting_for is not None and not input.to.branch:
        _answer(story, input, waiting_for)
    elif input.to.branch and _is_in_held_branch(story, input.to.branch):
        _go_on_with(story, input)
    elif run.visit.phase == "held" or (
        run.visit.phase == "halting" and run.halt.leads_to != "stop"
    ):
        input = _to_all(input)
        _receive(story, input, "interrupt")
        _join_halt(story, input.to.text)
    elif run.visit.phase == "halting":
        _reject(story, input, "the run is stopping")
    else:
        _unasked(story, input)


def _unasked(story: Story, input: UserSaid) -> None:
    story, text = story_at(story, input.to.branch), input.to.text
    run = story.run
    for around in story.around_it():
        if around.run.visit.phase not in AROUND:
            _keep_for_later(story, input)
            return
    if run.visit.phase == "halting" and run.halt.leads_to == "stop":
        _reject(story, input, "the branch is stopping")
        return
    if run.visit.phase in ("held", "halting"):
        _receive(story, input, "interrupt")
        _join_halt(story, text)
        return
    if run.visit.phase == "waiting":
        _hand_over(story, input)
        return
    policy = input.policy or policy_of(run)
    if policy == "interrupt" and _is_storm(story.whole.run, input.at):
        reason = f"{STORM_COUNT} interruptions within {STORM_WINDOW_S:.0f} s: this one waits"
        _receive(story, input, "queue", reason)
    elif policy == "interrupt":
        _receive(story, input, "interrupt", at=input.at)
        halt(story, with_unheard(run, text), "words", shown_in(story, input.shown))
    elif policy == "reject":
        _reject(story, input, f"the state {run.visit.state!r} accepts no input while it runs")
    elif policy == "steer":
        _receive(story, input, "steer")
        _cut_for_steer(story, shown_in(story, input.shown))
    else:
        _receive(story, input, "queue")


def _keep_for_later(story: Story, input: UserSaid) -> None:
    """Keep words for a branch that is held with the run around it: they are heard when that goes on."""
    run = story.run
    if run.halt.leads_to == "stop" or run.visit.phase not in ("held", "halting"):
        _reject(story, input, f"{run.branch.path} is being stopped, or has not begun")
        return
    _receive(story, input, "interrupt")
    text = with_unheard(run, input.to.text)
    story.tell(
        e.Interrupted(epoch=run.halt.epoch, text=text, leads_to="hold", state=run.visit.state)
    )


def _is_in_held_branch(story: Story, path: str) -> bool:
    """Return whether a held run can go on with words for one of its branches, all the way down to it."""
    if story.run.visit.phase != "held":
        return False
    here = story
    for name in path.split("/"):
        run = here.run
        cut = run.halt.cuts[-1] if run.visit.phase == "held" and run.halt.cuts else None
        if (
            cut is None
            or (cut.state, cut.phase) != (run.visit.state, "branches")
            or here.undelivered()
        ):
            return False
        here = here.within(name)
    return here.run.visit.phase == "held"


def _go_on_with(story: Story, input: UserSaid) -> None:
    """Let a held run go on, and one of its branches with the words."""
    _receive(story_at(story, input.to.branch), input, "interrupt")
    for name in input.to.branch.split("/"):
        enter(story, INTERRUPTED, "going on")
        story = story.within(name)
    _join_halt(story, input.to.text)


def _hand_over(story: Story, input: UserSaid) -> None:
    """Give a branch that waits for words the ones it was sent."""
    question = next(q for q in story.own_questions() if q.kind == "input")
    if question.schema is not None:
        words = f"it must be of type {question.schema.get('type')}: write it without the @"
        input = replace(input, problem=words)
    _answer(story.whole, input, question)


def shown_in(story: Story, shown: tuple[Shown, ...]) -> tuple[Shown, ...]:
    """Return what was seen of the replies in the story's part of the run, by its own keys."""
    if not isinstance(story, BranchStory):
        return shown
    outer = shown_in(story.around, shown)
    head = (story.around.run.visit.step, WITHIN, story.name)
    return tuple(replace(part, key=part.key[3:]) for part in outer if part.key[:3] == head)


def _receive(
    story: Story, input: UserSaid, handling: Policy, reason: str = "", at: float | None = None
) -> None:
    story.whole.tell(
        e.InputReceived(
            input_id=input.id,
            text=input.to.text,
            source=input.source,
            handling=handling,
            reason=reason,
            at=at,
            to=story.path,
            pictures=input.pictures,
        )
    )


def _reject(story: Story, input: UserSaid, reason: str) -> None:
    _receive(story, input, "reject")
    story.dispose(input.id, "rejected", reason)


def _is_storm(run: Run, at: float) -> bool:
    recent = run.inbox.interrupted_at[-STORM_COUNT:]
    # A clock that was set back tells nothing of how fast the words came.
    return len(recent) == STORM_COUNT and 0 <= at - recent[0] < STORM_WINDOW_S


def withdrawn(story: Story, input: Withdraw) -> None:
    """Take back a line that has not been delivered; a delivered one stays as it is."""
    record = story.run.inbox.lines.get(input.input_id)
    if record is not None and record.disposition is None and record.handling != "interrupt":
        story.tell(e.InputDisposed(input_id=record.id, disposition="withdrawn"))


# --- answers ----------------------------------------------------------------------------------


def _answer(story: Story, input: UserSaid, question: Question | None) -> None:
    story.tell(
        e.InputReceived(
            input_id=input.id,
            text=input.to.text,
            source=input.source,
            handling="answer",
            pictures=input.pictures,
        )
    )
    refusal = _refusal(input, question)
    if question is None or refusal:
        if question is not None and question.is_open:
            story.tell(e.AnswerRefused(question_id=question.id, input_id=input.id, reason=refusal))
        story.tell(e.InputDisposed(input_id=input.id, disposition="rejected", reason=refusal))
        return
    answer: Json = input.answer if question.schema is not None else chosen(question, input.to.text)
    story = story_at(story, question.branch)
    story.tell(e.QuestionAnswered(question_id=question.id, answer=answer, input_id=input.id))
    story.dispose(input.id, "answered")
    if question.about == "budget":
        if answer == STOP_THERE:
            stopped(story, Stop(reason="a budget was used up"))
    elif story.run.visit.phase == "asking" and question.kind == "question":
        text = answer if isinstance(answer, str) else input.to.text
        story.tell(e.WorkDone(state=story.run.visit.state, value=answer, text=text))
    elif question.call_id:
        text = answer if isinstance(answer, str) else input.to.text
        if _is_about_outcome(story.run, question):
            if _call_of(story.run, question).status == "parked":
                story.close_call(question.call_id, *OUTCOMES[text])
        else:
            shown = pictures_in(text, story.whole.run.pictures)
            story.close_call(question.call_id, "completed", text, shown)
    elif story.run.visit.state:
        join_words(story, input.to.text)


def story_at(story: Story, branch: str) -> Story:
    """Return the story of the branch at a path."""
    for name in branch.split("/") if branch else ():
        story = story.within(name)
    return story


def ask_outcome(story: Story, agent: str, call: ToolCall) -> None:
    """Ask what became of a call that ran when its process was gone; it parks until then.

    The process may have died, or have been left before there was room to journal how the call ended.
    """
    story.tell(
        e.QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="question",
            text=f"A call was cut off while it ran. What became of it?\n{_whole(call)}",
            agent=agent,
            call_id=call.id,
            choices=tuple(OUTCOMES),
        )
    )


def _whole(call: ToolCall) -> str:
    """Return a call with all it was called with; a command as it is, no JSON around it."""
    command = call.arguments.get(COMMAND)
    if len(call.arguments) == 1 and isinstance(command, str):
        return f"{call.name} $ {command}"
    return f"{call.name} {encode(call.arguments).decode()}"


def ask_again(story: Story, call: OpenCall) -> None:
    """Ask what became of the state's own call that was cut, before it could be made again."""
    ask_outcome(story, "", call.call)


def _is_about_outcome(run: Run, question: Question) -> bool:
    """Return whether a question asks what became of a call, instead of being the call."""
    if not question.call_id or question.kind != "question" or run.visit.turn is None:
        return False
    return not is_question_call(_call_of(run, question))


def _call_of(run: Run, question: Question) -> OpenCall:
    assert run.visit.turn is not None, "only a turn parks calls"
    return next(c for c in run.visit.turn.calls if c.call.id == question.call_id)


def _refusal(input: UserSaid, question: Question | None) -> str:
    if question is None:
        return f"there is no question {input.to.question}"
    if question.status == "answered":
        return "already answered"
    if question.status == "expired":
        return "the time to answer it is over"
    if question.status == "superseded":
        return "the question is closed: what asked it was interrupted"
    if question.kind == "approval":
        return "words do not approve a tool call: press y or n at the prompt"
    if input.problem:
        return input.problem
    return misfit(question, input.to.text) if chosen(question, input.to.text) is None else ""


# --- halting ----------------------------------------------------------------------------------


def halted(story: Story, input: Halt) -> None:
    """A bare stop: halt what runs and hold. Where nothing runs, nothing happens."""
    run = story.run
    if run.visit.phase in _AT_WORK or (
        run.visit.phase == "halting" and run.halt.leads_to == "trouble"
    ):
        halt(story, None, "hold", input.shown)


_AT_WORK = (
    "pre",
    "turn",
    "call",
    "asking",
    "resting",
    "branches",
    "retrying",
    "post",
    "transition",
)


def stopped(story: Story, input: Stop) -> None:
    """End the run once its running tools have stopped."""
    halt(story, None, "stop", input.shown, reason=input.reason)


def give_up(story: Story, kind: ErrorKind, error: str, shown: tuple[Shown, ...] = ()) -> None:
    """End the work of the state over an error, once its running tools have stopped."""
    halt(story, None, "trouble", shown, reason=error, trouble=kind)


def _join_halt(story: Story, text: str) -> None:
    run = story.run
    whole = with_unheard(run, text)
    story.tell(
        e.Interrupted(epoch=run.halt.epoch, text=whole, leads_to="words", state=run.visit.state)
    )
    finish_halt(story)


def halt(
    story: Story,
    text: str | None,
    leads_to: Literal["words", "hold", "stop", "trouble"],
    shown: tuple[Shown, ...],
    *,
    reason: str = "",
    trouble: ErrorKind | None = None,
    told: Told | None = None,
) -> None:
    """Begin the halting list; branches within are halted with the run.

    They are stopped with it, else held: over an error, too, for words may come that let them go on.
    """
    run = story.run
    agent = "" if run.visit.turn is None else run.visit.turn.agent
    seen = _seen(run, shown)
    story.tell(
        e.Interrupted(
            epoch=run.halt.epoch + 1,
            text=text,
            leads_to=leads_to,
            state=run.visit.state,
            agent=agent,
            partial="" if seen is None else seen.text,
            reason=reason,
            trouble=trouble,
            usage=None if seen is None else seen.usage,
            calling="" if seen is None else seen.calling,
        )
    )
    told = told or _REASONS[leads_to]
    for inner in story.living():
        head = (run.visit.step, WITHIN, inner.name)
        within = tuple(replace(part, key=part.key[3:]) for part in shown if part.key[:3] == head)
        if leads_to == "stop" or inner.run.branch.call_id:
            stop_branch(inner, reason or "interrupted", within)
        else:
            hold_branch(inner, within, told)
    not_run, stopped, unanswered = told
    calls = () if story.run.visit.turn is None else story.run.visit.turn.calls
    asked = story.own_questions() if calls else []
    unsure = {q.call_id for q in asked if _is_about_outcome(run, q)} if asked else set()
    for open_call in calls:
        if open_call.ended is not None and open_call.status in ("running", "stopping"):
            # Only a check was to come, or hooks were to have their say; they are killed.
            ended = open_call.ended
            text = with_change(open_call, ended.result)
            story.close_call(open_call.call.id, ended.outcome, text, ended.pictures)
        elif open_call.call.id in unsure:
            story.close_call(open_call.call.id, "unknown", UNKNOWN)
        elif open_call.status == "parked" and is_question_call(open_call):
            story.close_call(open_call.call.id, "not_run", unanswered)
        elif open_call.status == "running":
            story.close_call(open_call.call.id, "stopped", stopped)
        elif open_call.status in ("new", "parked"):
            story.close_call(open_call.call.id, "not_run", not_run)
    close_asked(story, not_run)
    # At once, though `once` tools may take a while to stop: a late yes must not start a closed call.
    story.supersede_questions("interrupted")
    finish_halt(story)


def stop_branch(story: Story, reason: str, shown: tuple[Shown, ...] = ()) -> bool:
    """Stop a branch; False: it is being stopped."""
    if story.run.visit.phase == "halting" and story.run.halt.leads_to == "stop":
        return False
    halt(story, None, "stop", shown, reason=reason)
    return True


def hold_branch(story: Story, shown: tuple[Shown, ...], told: Told) -> None:
    """Hold a branch until the run around it goes on. Words it was halted for wait until then."""
    run = story.run
    if is_at_rest(run):
        story.supersede_questions("interrupted")
    elif run.visit.phase != "halting" or run.halt.leads_to == "trouble":
        halt(story, None, "hold", shown, told=told)
    elif run.halt.leads_to == "words":
        story.tell(
            e.Interrupted(epoch=run.halt.epoch, text=None, leads_to="hold", state=run.visit.state)
        )


_REASONS: dict[str, Told] = {
    "words": (NOT_RUN, STOPPED, UNANSWERED),
    "hold": (NOT_RUN, STOPPED, UNANSWERED),
    "stop": (RUN_STOPPED, RUN_STOPPED, RUN_STOPPED),
    "trouble": (GIVEN_UP, GIVEN_UP, GIVEN_UP),
}
"""The same, by what the halt leads to."""


def _seen(run: Run, shown: tuple[Shown, ...]) -> Shown | None:
    """Return what was seen of the reply the run waits for, None where it waits for none."""
    if run.visit.phase != "turn" or run.visit.turn is None or run.visit.turn.calls:
        return None
    key = request_key(run)
    for part in shown:
        if part.key == key:
            return part
    return None


def finish_halt(story: Story) -> None:
    """Take the steps of the halting list that no running tool holds up any more."""
    run = story.run
    if run.visit.phase not in ("halting", "held"):
        return
    if hand_in(story, _REASONS.get(run.halt.leads_to, _REASONS["words"])[1]):
        run = story.run
    if run.visit.turn is not None and run.visit.turn.prompted:
        return
    if run.visit.turn is not None and run.visit.turn.calls:
        call = run.visit.turn.calls[0]
        if run.visit.turn.agent or call.status != "done":
            return
        # The state's own call completed while it was being stopped: its work is done.
        story.tell(e.WorkDone(state=run.visit.state, value=value_of(call.result), text=call.result))
        run = story.run
        if run.visit.phase not in ("halting", "held"):
            return
    if run.visit.branches and any(b.visit.phase == "halting" for b in run.visit.branches.values()):
        return
    if run.halt.leads_to == "stop":
        story.dispose_rest()
        story.stop(run.halt.reason)
    elif run.halt.leads_to == "trouble" and run.visit.trouble is not None:
        trouble = run.visit.trouble
        for inner in () if is_tried_again(run, trouble.kind) else story.living():
            stop_branch(inner, trouble.error)
        failed(story, trouble.kind, trouble.error, trouble.hint, fault=trouble.fault)
    elif run.halt.leads_to == "words" and run.visit.phase == "halting":
        for record in story.undelivered():
            if record.handling == "interrupt":
                story.dispose(record.id, "interrupted")
        resume(story, "interrupted")


def value_of(text: str) -> Json:
    """Return what a tool's text is where it is a JSON object or list, else the text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return decode(text)
    except (DecodeError, RecursionError):
        return text


# --- steering and queueing --------------------------------------------------------------------


def _cut_for_steer(story: Story, shown: tuple[Shown, ...]) -> None:
    """Cut a reply in words, so that the steer joins the next request; a tool call is waited for."""
    run = story.run
    if run.visit.phase != "turn" or run.visit.turn is None or run.visit.turn.calls:
        return
    part = _seen(run, shown)
    if part is not None and part.has_calls:
        return
    if any(call.status == "running" for call in run.visit.turn.external):
        return  # as any tool call, it is waited for
    close_calls(story)
    partial, usage = ("", None) if part is None else (part.text, part.usage)
    story.tell(e.ReplyCut(agent=run.visit.turn.agent, partial=partial, usage=usage))


def cut_for_steers(story: Story, shown: tuple[Shown, ...]) -> None:
    """Cut an external agent's reply once it makes no call, for words that wait to join its turn."""
    turn = story.run.visit.turn
    if turn is None or not turn.prompted or story.run.visit.phase != "turn":
        return
    if any(record.handling == "steer" for record in story.undelivered()):
        _cut_for_steer(story, shown_in(story, shown))


def keep_shown(story: Story) -> None:
    """Keep what was shown of replies that no process hears any more, as an interrupt keeps it.

    A crash is an interrupt nobody typed: a chat holds after it as after Esc, and asks the model nothing
    before its person has said so. A workflow goes on by itself, its agents with what they had said.
    """
    run = story.run
    for inner in story.living():
        keep_shown(inner)
    if (
        run.visit.phase != "turn"
        or run.visit.turn is None
        or run.visit.turn.calls
        or not (run.visit.turn.shown or run.visit.turn.calling or run.visit.turn.prompted)
    ):
        return
    turn = run.visit.turn
    if definition_of(run).kind == "chat":
        key = request_key(run)
        seen = Shown(key=key, text=turn.shown, usage=turn.so_far, calling=turn.calling)
        halt(story, None, "hold", (seen,))
    else:
        story.tell(
            e.ReplyCut(
                agent=turn.agent,
                partial=turn.shown,
                recovered=True,
                usage=turn.so_far,
                calling=turn.calling,
            )
        )


def deliver_steers(story: Story) -> None:
    """Let the agent hear, with its next request, the words that joined its turn."""
    assert story.run.visit.turn is not None
    context = story.run.plan.agents[story.run.visit.turn.agent].context
    for record in story.undelivered():
        if record.handling == "steer":
            story.tell(e.WordsJoined(context=context, text=record.text))
            story.dispose(record.id, "steered")
