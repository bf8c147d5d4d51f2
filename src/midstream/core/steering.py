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

from typing import Literal

from msgspec.json import encode

from midstream.core.apply import is_question_call, resume_target
from midstream.core.conversation import ToolCall
from midstream.core.events import (
    AnswerRefused,
    InputDisposed,
    InputReceived,
    Interrupted,
    QuestionAnswered,
    QuestionAsked,
    ReplyCut,
    RunFinished,
    RunResumed,
    RunStopped,
    StateTransition,
    WordsJoined,
    WorkflowOutput,
)
from midstream.core.inputs import Halt, Shown, Stop, UserSaid, Withdraw
from midstream.core.names import (
    INTERRUPTED,
    REQUEST_USERS_INPUT,
    RESUME,
    START,
    STOP,
    Json,
    Outcome,
    Policy,
)
from midstream.core.nearest import did_you_mean
from midstream.core.paths import Missing, look_up
from midstream.core.pending import request_key
from midstream.core.question import Question, chosen, misfit
from midstream.core.run import Run, definition_of, plan_for
from midstream.core.spec import input_schema
from midstream.core.story import Story

STOPPED = "Stopped: the user interrupted."
NOT_RUN = "Not run: the user interrupted first."
UNANSWERED = "Not answered: the user interrupted instead."
RUN_STOPPED = "The run was stopped."
UNKNOWN = "Stopped, outcome unknown: verify before repeating."

HAPPENED = "It happened"
DID_NOT_HAPPEN = "It did not happen"
NOT_KNOWN = "Not known: let the agent verify"
OUTCOMES: dict[str, tuple[Outcome, str]] = {
    HAPPENED: (
        "completed",
        "The process ended during this call and its output is lost. The user says: it happened.",
    ),
    DID_NOT_HAPPEN: (
        "not_run",
        "The process ended before this call had an effect. The user says: it did not happen.",
    ),
    NOT_KNOWN: ("unknown", "The process ended during this call. Outcome unknown: verify first."),
}
"""What a person may say of a call whose outcome is unknown, and what the model is told then."""

STORM_COUNT = 6
STORM_WINDOW_S = 10.0
"""So many interruptions in so many seconds are a storm: further words queue, and are told so."""

MAX_SILENT_TRANSITIONS = 1000
"""Transitions in one decision, with nothing to do in between, before the run fails as a loop."""


# --- words ------------------------------------------------------------------------------------


def said(story: Story, input: UserSaid) -> None:
    """Judge a line of the user. The same id again changes nothing."""
    run = story.run
    if input.id in run.inbox:
        return
    if run.suspended:
        story.tell(RunResumed())
    waiting_for = next((q for q in run.open_questions if q.kind == "input"), None)
    if input.question is not None:
        _answer(story, input, next((q for q in run.questions if q.id == input.question), None))
    elif waiting_for is not None:
        _answer(story, input, waiting_for)
    elif run.phase == "held" or (run.phase == "halting" and run.halting_for != "stop"):
        _receive(story, input, "interrupt")
        _join_halt(story, input.text)
    elif run.phase == "halting":
        _reject(story, input, "the run is stopping")
    else:
        _unasked(story, input)


def _unasked(story: Story, input: UserSaid) -> None:
    run = story.run
    state = plan_for(run).states[run.state]
    policy: Policy = input.policy or state.on_input or definition_of(run).workflow.on_input
    if policy == "interrupt" and _is_storm(run, input.at):
        reason = f"{STORM_COUNT} interruptions within {STORM_WINDOW_S:.0f} s: this one waits"
        _receive(story, input, "queue", reason)
    elif policy == "interrupt":
        _receive(story, input, "interrupt", at=input.at)
        _halt(story, _with_unheard(run, input.text), "words", input.shown)
    elif policy == "reject":
        _reject(story, input, f"the state {run.state!r} takes no words while it runs")
    elif policy == "steer":
        _receive(story, input, "steer")
        _cut_for_steer(story, input.shown)
    else:
        _receive(story, input, "queue")


def _receive(
    story: Story, input: UserSaid, handling: Policy, reason: str = "", at: float | None = None
) -> None:
    story.tell(
        InputReceived(
            input_id=input.id,
            text=input.text,
            source=input.source,
            handling=handling,
            reason=reason,
            at=at,
        )
    )


def _reject(story: Story, input: UserSaid, reason: str) -> None:
    _receive(story, input, "reject")
    story.tell(InputDisposed(input_id=input.id, disposition="rejected", reason=reason))


def _is_storm(run: Run, at: float) -> bool:
    recent = run.interrupted_at[-STORM_COUNT:]
    return len(recent) == STORM_COUNT and at - recent[0] < STORM_WINDOW_S


def withdrawn(story: Story, input: Withdraw) -> None:
    """Take back a line that has not been delivered; a delivered one stays as it is."""
    record = story.run.inbox.get(input.input_id)
    if record is not None and record.disposition is None and record.handling != "interrupt":
        story.tell(InputDisposed(input_id=record.id, disposition="withdrawn"))


# --- answers ----------------------------------------------------------------------------------


def _answer(story: Story, input: UserSaid, question: Question | None) -> None:
    story.tell(
        InputReceived(input_id=input.id, text=input.text, source=input.source, handling="answer")
    )
    refusal = _refusal(input, question)
    if question is None or refusal:
        if question is not None and question.is_open:
            story.tell(AnswerRefused(question_id=question.id, input_id=input.id, reason=refusal))
        story.tell(InputDisposed(input_id=input.id, disposition="rejected", reason=refusal))
        return
    answer: Json = input.answer if question.schema is not None else chosen(question, input.text)
    story.tell(QuestionAnswered(question_id=question.id, answer=answer, input_id=input.id))
    story.tell(InputDisposed(input_id=input.id, disposition="answered"))
    if question.call_id:
        text = answer if isinstance(answer, str) else input.text
        if _is_about_outcome(story.run, question):
            story.close_call(question.call_id, *OUTCOMES[text])
        else:
            story.close_call(question.call_id, "completed", text)
    elif story.run.state:
        _join_words(story, input.text)


def ask_outcome(story: Story, agent: str, call: ToolCall) -> None:
    """Ask what became of a call that ran when its process was gone; it parks until then.

    The process may have died, or have been left before there was room to journal how the call ended.
    """
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(),
            number=story.next_number(),
            kind="question",
            text=f"The process ended while {call.name} {encode(call.arguments).decode()} ran. "
            "What became of it?",
            agent=agent,
            call_id=call.id,
            choices=tuple(OUTCOMES),
        )
    )


def _is_about_outcome(run: Run, question: Question) -> bool:
    """Return whether a question asks what became of a call, instead of being the call."""
    calls = () if run.turn is None else run.turn.calls
    name = next((c.call.name for c in calls if c.call.id == question.call_id), "")
    return question.kind == "question" and name not in ("", REQUEST_USERS_INPUT)


def _refusal(input: UserSaid, question: Question | None) -> str:
    if question is None:
        return f"there is no question {input.question}"
    if question.status == "answered":
        return "already answered"
    if question.status == "superseded":
        return "the question is closed: what asked it was interrupted"
    if question.kind == "approval":
        return "words do not approve a tool call: press y or n at the prompt"
    if input.problem:
        return input.problem
    return misfit(question, input.text) if chosen(question, input.text) is None else ""


# --- halting ----------------------------------------------------------------------------------


def halted(story: Story, input: Halt) -> None:
    """A bare stop: halt what runs and hold. Where nothing runs, nothing happens."""
    if story.run.phase in ("pre", "turn", "post", "transition"):
        _halt(story, None, "hold", input.shown)


def stopped(story: Story, input: Stop) -> None:
    """End the run once its running tools have stopped."""
    _halt(story, None, "stop", input.shown, reason=input.reason)


def _join_halt(story: Story, text: str) -> None:
    run = story.run
    whole = _with_unheard(run, text)
    story.tell(Interrupted(epoch=run.epoch, text=whole, leads_to="words", state=run.state))
    finish_halt(story)


def _with_unheard(run: Run, text: str) -> str:
    """Return the words after those of a halt that no handler and no agent has got to see yet."""
    return text if run.is_heard or run.resume_input is None else f"{run.resume_input}\n{text}"


def _halt(
    story: Story,
    text: str | None,
    leads_to: Literal["words", "hold", "stop"],
    shown: tuple[Shown, ...],
    *,
    reason: str = "",
) -> None:
    run = story.run
    agent = "" if run.turn is None else run.turn.agent
    story.tell(
        Interrupted(
            epoch=run.epoch + 1,
            text=text,
            leads_to=leads_to,
            state=run.state,
            agent=agent,
            partial=_partial(run, shown),
            reason=reason,
        )
    )
    is_end = leads_to == "stop"
    unsure = {q.call_id for q in run.open_questions if _is_about_outcome(run, q)}
    for open_call in () if story.run.turn is None else story.run.turn.calls:
        if open_call.call.id in unsure:
            story.close_call(open_call.call.id, "unknown", UNKNOWN)
        elif open_call.status == "parked" and is_question_call(open_call):
            story.close_call(open_call.call.id, "not_run", RUN_STOPPED if is_end else UNANSWERED)
        elif open_call.status == "running":
            story.close_call(open_call.call.id, "stopped", RUN_STOPPED if is_end else STOPPED)
        elif open_call.status in ("new", "parked"):
            story.close_call(open_call.call.id, "not_run", RUN_STOPPED if is_end else NOT_RUN)
    # At once, though `once` tools may take a while to stop: a late yes must not start a closed call.
    story.supersede_questions("interrupted")
    finish_halt(story)


def _partial(run: Run, shown: tuple[Shown, ...]) -> str:
    if run.phase != "turn" or run.turn is None or run.turn.calls:
        return ""
    key = request_key(run)
    for part in shown:
        if part.key == key:
            return part.text
    return ""


def finish_halt(story: Story) -> None:
    """Take the steps of the halting list that no running tool holds up any more."""
    run = story.run
    if run.phase not in ("halting", "held"):
        return
    if run.turn is not None and run.turn.calls:
        return
    if run.halting_for == "stop":
        story.dispose_rest()
        story.tell(RunStopped(reason=run.stop_reason))
    elif run.halting_for == "words" and run.phase == "halting":
        for record in run.undelivered:
            if record.handling == "interrupt":
                story.tell(InputDisposed(input_id=record.id, disposition="interrupted"))
        _resume(story, "interrupted")


def _resume(story: Story, reason: str) -> None:
    """Enter `resume`, else `start`, and let its agent hear the words.

    A `resume` state with a pre_handler decides itself what becomes of the words. Everywhere else
    they join the conversation: nothing typed is lost on an author who did not think of it.
    """
    run = story.run
    target = resume_target(run)
    words = run.resume_input or ""
    story.tell(StateTransition(source=run.state, target=target, reason=reason))
    if story.run.phase == "waiting":
        # The state waits for words, and these are some: nobody is asked to type them again.
        _await_input(story)
        story.tell(QuestionAnswered(question_id=story.run.open_questions[-1].id, answer=words))
    if target != RESUME or plan_for(run).states[RESUME].pre_handler is None:
        _join_words(story, words)


def _join_words(story: Story, text: str) -> None:
    """Add the words to the context of the state's agent, else of the state that was cut."""
    plan = plan_for(story.run)
    agents = [plan.states[story.run.state].agent]
    cut = story.run.interrupted_state
    if cut is not None and cut in plan.states:
        agents.append(plan.states[cut].agent)
    agent = next((agent for agent in agents if agent is not None), None)
    if agent is not None and text:
        story.tell(WordsJoined(context=plan.agents[agent].context, text=text))


# --- steering and queueing --------------------------------------------------------------------


def _cut_for_steer(story: Story, shown: tuple[Shown, ...]) -> None:
    """Cut a reply in words, so that the steer joins the next request; a tool call is waited for."""
    run = story.run
    if run.phase != "turn" or run.turn is None or run.turn.calls:
        return
    key = request_key(run)
    part = next((part for part in shown if part.key == key), None)
    if part is not None and part.has_calls:
        return
    story.tell(ReplyCut(agent=run.turn.agent, partial="" if part is None else part.text))


def _deliver_steers(story: Story) -> None:
    assert story.run.turn is not None
    context = plan_for(story.run).agents[story.run.turn.agent].context
    for record in story.run.undelivered:
        if record.handling == "steer":
            story.tell(WordsJoined(context=context, text=record.text))
            story.tell(InputDisposed(input_id=record.id, disposition="steered"))


def _deliver_queue(story: Story, target: str, *, resumes: bool) -> bool:
    """Turn to the queued words now that the state is done; False if there are none."""
    waiting = story.run.undelivered
    if not waiting:
        return False
    text = _with_unheard(story.run, "\n".join(record.text for record in waiting))
    epoch = story.run.epoch + 1
    story.tell(Interrupted(epoch=epoch, text=text, state=target, resumes=resumes))
    for record in waiting:
        story.tell(InputDisposed(input_id=record.id, disposition="queued"))
    _resume(story, "queued words")
    return True


# --- what follows by itself -------------------------------------------------------------------


def settle(story: Story, *, is_new_request: bool) -> None:
    """Tell what follows without anything happening: transitions, the end, delivered steers."""
    finish_halt(story)
    silent = 0
    while story.run.phase == "leaving":
        _leave(story)
        is_new_request = True
        silent += 1
        if silent == MAX_SILENT_TRANSITIONS:
            story.fail(
                f"{MAX_SILENT_TRANSITIONS} transitions in a row, none with anything to do.",
                "Give one of the states in the loop an agent or a handler, or let one lead to stop.",
                fault="author",
            )
    run = story.run
    if run.phase == "waiting" and not any(q.kind == "input" for q in run.open_questions):
        _await_input(story)
    elif run.phase == "turn" and run.turn is not None and not run.turn.calls and is_new_request:
        _deliver_steers(story)


def _await_input(story: Story) -> None:
    run = story.run
    wanted = definition_of(run).workflow.input
    text, schema = "", None
    if run.state == "" and wanted is not None:
        text = wanted.description or f"{wanted.name}?"
        schema = input_schema(wanted)
    story.tell(
        QuestionAsked(
            question_id=story.next_question_id(), number=0, kind="input", text=text, schema=schema
        )
    )


def _leave(story: Story) -> None:
    run = story.run
    if run.state == STOP:
        _finish(story)
        return
    if run.state == "":
        enter(story, START, "started")
    else:
        target = STOP if run.chosen is None else run.chosen
        enter(story, target, run.chosen_by or "no transition given")


def enter(story: Story, target: str, reason: str) -> None:
    """Go to a state, or where `$interrupted` leads, unless queued words come first."""
    run = story.run
    resumes = target == INTERRUPTED
    if resumes and not run.cuts:
        story.fail(
            f"The state {run.state!r} leads to {INTERRUPTED} ({reason}), "
            "but no interrupted state is left to go back to.",
            "Go there at most once for each interruption, from a state that `resume` leads to.",
            fault="author",
        )
        return
    target = run.cuts[-1].state if resumes else target
    states = plan_for(run).states
    if target not in states:
        story.fail(
            f"The state {run.state!r} leads to {target!r} ({reason}), "
            "a state the workflow does not have.",
            did_you_mean(target, states),
            fault="author",
        )
    elif run.state == "" or not _deliver_queue(story, target, resumes=resumes):
        story.tell(StateTransition(source=run.state, target=target, reason=reason, resumes=resumes))
        if run.state == "" and isinstance(run.input, str) and story.run.phase != "pre":
            # A pre_handler would say itself what the first agent hears of the run's input.
            _join_words(story, run.input)


def _finish(story: Story) -> None:
    run = story.run
    path = plan_for(run).states[STOP].input
    reply = None if run.last_response is None else run.last_response.text
    output: Json = reply
    if path is not None:
        output = look_up(run, path)
        if isinstance(output, Missing):
            story.tell(
                WorkflowOutput(
                    text=f"stop names {path}, which nothing wrote; the last reply stands in."
                )
            )
            output = reply
    if isinstance(output, str) and output and definition_of(run).kind == "workflow":
        story.tell(WorkflowOutput(text=output, kind="result"))
    story.supersede_questions("the run finished")
    story.dispose_rest()
    story.tell(RunFinished(output=output))
