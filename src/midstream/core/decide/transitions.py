"""Where a run goes: transitions, what happens over errors, ends.

An error of a state is of a kind. `retry` tries the state's work again, `catch` leads elsewhere,
`on_failure` is the older word for catching what an agent's turn comes to; without any of them the run
fails.
"""

from midstream.core import events as e
from midstream.core.decide.transaction import Story
from midstream.core.fold.fold_halts import may_have_happened
from midstream.core.fold.fold_states import resume_target
from midstream.core.pending import MAX_BACKOFF_S
from midstream.core.run import Run, definition_of
from midstream.core.run_data import last_of, look_up
from midstream.language.data_paths import Missing
from midstream.language.errors import Fault, did_you_mean
from midstream.language.expressions import BadExpression, ExpressionFailed, compiled
from midstream.language.names import (
    CONFLICT,
    IN_WORKTREE,
    INTERRUPTED,
    RESUME,
    STOP,
    ErrorKind,
    Json,
)
from midstream.language.plan import input_schema
from midstream.language.spec import Catch, State

MAX_CAUGHT = 100
"""Errors caught in one decision before the run fails: states that only catch each other turn for ever."""


# --- errors -----------------------------------------------------------------------------------


def failed(
    story: Story, kind: ErrorKind, error: str, hint: str = "", *, fault: Fault = "world"
) -> None:
    """Go on after an error of the state the run is in, as the state says."""
    run = story.run
    state = run.plan.states.get(run.visit.state) or State(name=run.visit.state)
    retry = state.retry
    if retry is not None and is_tried_again(run, kind):
        wait_s = min(retry.backoff_s * 2 ** min(run.visit.attempts, 30), MAX_BACKOFF_S)
        story.tell(
            e.StateFailed(
                state=run.visit.state,
                kind=kind,
                error=error,
                hint=hint,
                then="retry",
                attempt=run.visit.attempts + 1,
                of=retry.max_attempts,
                wait_s=wait_s,
            )
        )
        return
    catch = catch_of(state, kind)
    if catch is None:
        story.fail(error, hint, fault=fault)
        return
    told = e.StateFailed(
        state=run.visit.state,
        kind=kind,
        error=error,
        hint=hint,
        then="catch",
        save_as=catch.save_as or "",
    )
    story.tell(told)
    enter(story, catch.to, f"{kind} error")


def is_tried_again(run: Run, kind: ErrorKind) -> bool:
    """Return whether the state is tried again over an error of that kind."""
    state = run.plan.states.get(run.visit.state)
    retry = None if state is None else state.retry
    if retry is None or kind == CONFLICT or run.visit.attempts + 1 >= retry.max_attempts:
        return False
    return _is_among(kind, retry.on) and not may_have_happened(run)


def catch_of(state: State, kind: ErrorKind) -> Catch | None:
    """Return what catches an error of that kind in a state."""
    for catch in state.catch:
        if _is_among(kind, catch.on):
            return catch
    if state.on_failure is not None and kind in ("model", "agent", "output"):
        return Catch(to=state.on_failure)
    return None


def _is_among(kind: ErrorKind, kinds: tuple[ErrorKind, ...]) -> bool:
    return "any" in kinds or kind in kinds


# --- transitions --------------------------------------------------------------------------------


def leave(story: Story) -> None:
    """Leave the state the run is done with."""
    run = story.run
    if run.visit.state == STOP:
        _finish(story)
        return
    if run.visit.state == "":
        enter(story, run.branch.entry, "started")
        return
    target, reason = run.visit.chosen, run.visit.chosen_by
    state = run.plan.states[run.visit.state]
    if state.transitions and (target is None or reason == "next"):
        try:
            to, when = _taken(run, state)
        except (BadExpression, ExpressionFailed) as error:
            what = f"A transition of {run.visit.state!r}: {error.what}"
            failed(story, "template", what, error.hint, fault="author")
            return
        if to is not None:
            target, reason = to, "transition" if when is None else f"when {when}"
    enter(story, STOP if target is None else target, reason or "no transition given")


def _taken(run: Run, state: State) -> tuple[str | None, str | None]:
    for transition in state.transitions:
        if transition.when is None:
            return transition.to, None
        if compiled(transition.when).evaluate(values_of(run)):
            return transition.to, transition.when
    return None, None


def values_of(run: Run) -> dict[str, Json]:
    """Return the names an expression may read."""
    return {
        "common_data": run.common_data,
        "variables": run.variables,
        "input": run.input,
        "resume_input": run.halt.resume_input,
        "last": last_of(run),
        "visits": run.visits,
    }


def enter(story: Story, target: str, reason: str) -> None:
    """Go to a state, or where `$interrupted` leads, unless queued words come first."""
    run, states = story.run, story.run.plan.states
    resumes = target == INTERRUPTED
    if resumes:
        if not run.halt.cuts:
            story.fail(
                f"The state {run.visit.state!r} leads to {INTERRUPTED} ({reason}), "
                "but no interrupted state is left to go back to.",
                "Go there at most once for each interruption, from a state that `resume` leads to.",
                fault="author",
            )
            return
        target = run.halt.cuts[-1].state
    if target not in states:
        story.fail(
            f"The state {run.visit.state!r} leads to {target!r} ({reason}), "
            "a state the workflow does not have.",
            did_you_mean(target, states),
            fault="author",
        )
    elif (
        run.visit.state == ""
        or not story.whole.run.inbox.undelivered
        or not _deliver_queue(story, target, resumes=resumes)
    ):
        most = states[target].max_visits
        if most is not None and not resumes and run.visits.get(target, 0) >= most:
            _too_often(story, states[target], most)
            return
        story.tell(
            e.StateTransition(source=run.visit.state, target=target, reason=reason, resumes=resumes)
        )
        if run.visit.state == "" and isinstance(run.input, str):
            # A pre_handler, or a prompt, says itself what the first agent hears of the run's input.
            says_itself = story.run.visit.phase == "pre" or states[target].prompt is not None
            is_inside = run.branch.base is not None  # its contexts are those of the run around it
            if not (is_inside or says_itself):
                join_words(story, run.input)


def _too_often(story: Story, state: State, most: int) -> None:
    error = f"The state {state.name!r} was visited {most} times, which is its max_visits."
    catch = catch_of(state, "max_visits")
    turns = sum(isinstance(f, e.StateFailed) and f.kind == "max_visits" for f in story.whole.facts)
    if catch is None or turns >= MAX_CAUGHT:
        story.fail(error, "Raise max_visits, or catch the error.", fault="author")
        return
    told = e.StateFailed(
        state=state.name,
        kind="max_visits",
        error=error,
        then="catch",
        save_as=catch.save_as or "",
    )
    story.tell(told)
    enter(story, catch.to, "max_visits error")


def resume(story: Story, reason: str) -> None:
    """Enter `resume`, else the start, and let its agent hear the words.

    A `resume` state with a pre_handler decides itself what becomes of the words. Everywhere else
    they join the conversation: nothing typed is lost on an author who did not think of it.
    """
    run = story.run
    target = resume_target(run)
    is_back = target == INTERRUPTED
    target = run.halt.cuts[-1].state if is_back else target
    words = run.halt.resume_input or ""
    story.tell(
        e.StateTransition(source=run.visit.state, target=target, reason=reason, resumes=is_back)
    )
    if story.run.visit.phase == "waiting":
        # The state waits for words, and these are some: nobody is asked to type them again.
        await_input(story)
        story.tell(e.QuestionAnswered(question_id=story.own_questions()[-1].id, answer=words))
    if is_back or target != RESUME or run.plan.states[RESUME].pre_handler is None:
        join_words(story, words)


def join_words(story: Story, text: str) -> None:
    """Add the words to the context of the state's agent, else of the state that was cut."""
    plan = story.run.plan
    state = plan.states[story.run.visit.state]
    # A worktree is made first for whoever is to hear them.
    is_heard_next = state.name == IN_WORKTREE and state.next is not None
    agents = [plan.states[state.next].agent if is_heard_next and state.next else state.agent]
    cut = story.run.halt.interrupted_state
    if cut is not None and cut in plan.states:
        agents.append(plan.states[cut].agent)
    agent = next((agent for agent in agents if agent is not None), None)
    if agent is not None and text:
        story.tell(e.WordsJoined(context=plan.agents[agent].context, text=text))


def await_input(story: Story) -> None:
    """Ask for the words the run or its state waits for."""
    run = story.run
    wanted = definition_of(run).workflow.input
    text, schema = "", None
    if run.visit.state == "" and wanted is not None:
        text = wanted.description or f"{wanted.name}?"
        schema = input_schema(wanted)
    story.tell(
        e.QuestionAsked(
            question_id=story.next_question_id(), number=0, kind="input", text=text, schema=schema
        )
    )


def with_unheard(run: Run, text: str) -> str:
    """Return the words after those of a halt that no handler and no agent has got to see yet."""
    return (
        text
        if run.halt.is_heard or run.halt.resume_input is None
        else f"{run.halt.resume_input}\n{text}"
    )


def _deliver_queue(story: Story, target: str, *, resumes: bool) -> bool:
    """Turn to the queued words now that the state is done; False if there are none."""
    waiting = story.undelivered()
    if not waiting:
        return False
    text = with_unheard(story.run, "\n".join(record.text for record in waiting))
    epoch = story.run.halt.epoch + 1
    story.tell(e.Interrupted(epoch=epoch, text=text, state=target, resumes=resumes))
    for record in waiting:
        story.dispose(record.id, "queued")
    resume(story, "queued words")
    return True


# --- the end ------------------------------------------------------------------------------------


def output_of(run: Run) -> tuple[Json, str]:
    """Return what a run that reached `stop` leaves, and the path that led nowhere, "" if none did."""
    path = run.plan.states[STOP].input
    last = run.visit.last_response
    reply: Json = None if last is None else last.text
    if path is None:
        if last is not None and run.branch.path and last.value is not None:
            return last.value, ""
        return reply, ""
    found = look_up(run, path)
    return (reply, path) if isinstance(found, Missing) else (found, "")


def _finish(story: Story) -> None:
    output, missing = output_of(story.run)
    if missing:
        words = f"stop names {missing}, which nothing wrote; the last reply is used instead."
        story.tell(e.WorkflowOutput(text=words))
    is_told = isinstance(output, str) and output and not story.path
    if is_told and definition_of(story.run).kind == "workflow":
        story.tell(e.WorkflowOutput(text=output, kind="result"))
    story.supersede_questions("the run finished")
    story.dispose_rest()
    story.finish(output)
