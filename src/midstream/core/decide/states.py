"""The work of a state: how it begins, what it comes to, and what follows by itself.

`begin_work` tells one thing at a time; `run_to_completion` asks until there is nothing to tell. A state
may have branches, which are runs: to begin one is to run it to completion in its turn, so that the two
call each other as deep as branches stand in each other (`MAX_DEPTH`).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from midstream.core import events as e
from midstream.core.call_notes import MADE_ANEW
from midstream.core.conversation import ToolCall
from midstream.core.decide import steering
from midstream.core.decide.budgets import ask_for_more, exceeded, is_asked, over_budget
from midstream.core.decide.calls import begin_call
from midstream.core.decide.compacting import hand_over_queued
from midstream.core.decide.delegating import hand_in, worktree_name
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import (
    await_input,
    enter,
    failed,
    is_tried_again,
    join_words,
    leave,
    resume,
)
from midstream.core.fold.fold_branches import merged
from midstream.core.fold.fold_halts import is_at_rest
from midstream.core.run import FREE, WAITED, OpenCall, Run, definition_of, git_branch, kept_words
from midstream.core.run_data import as_text, look_up
from midstream.language.data_paths import Missing, stored, within
from midstream.language.names import CONFLICT, INTERRUPTED, JOIN_WORKTREE, ErrorKind, Json, Outcome
from midstream.language.plan import (
    branch_of,
    branches_of,
    has_worktree,
    sub_workflow,
    time_of,
    wait_of,
)
from midstream.language.spec import Ask, State, SubWorkflow
from midstream.language.templates import BadTemplate, TemplateFailed, filled

MAX_SILENT_TRANSITIONS = 1000
"""Transitions in one decision, with nothing to do in between, before the run fails as a loop."""


def run_to_completion(story: Story, *, is_new_request: bool) -> None:
    """Tell what follows without anything happening, until the run is owed something or waits."""
    run = story.run
    if run.visit.phase in ("halting", "held"):
        steering.finish_halt(story)
        run = story.run
    if run.visit.phase == "waiting":
        hand_over_queued(story)
        run = story.run
    first = run.visit.step
    while (phase := run.visit.phase) != "ended":
        if run.visit.step - first >= MAX_SILENT_TRANSITIONS:
            story.fail(
                f"{MAX_SILENT_TRANSITIONS} transitions in a row, and no state had work to do.",
                "Give one of the states in the loop an agent or a handler, or let one lead to stop.",
                fault="author",
            )
        elif phase == "leaving":
            leave(story)
            is_new_request = True
            pause_if_over(story)
        elif phase == "turn" and run.visit.branches and _advance_tasks(story):
            # The request that follows the last of its calls has not begun.
            turn = story.run.visit.turn
            is_new_request = is_new_request or (turn is not None and not turn.calls)
        elif phase not in _BEGINS or not begin_work(story, is_new_request=is_new_request):
            break
        run = story.run
    if phase == "waiting" and not any(q.kind == "input" for q in story.own_questions()):
        await_input(story)
    elif (
        phase == "turn"
        and run.visit.turn is not None
        and not run.visit.turn.calls
        and is_new_request
    ):
        steering.deliver_steers(story)


def _advance_tasks(story: Story) -> bool:
    """Let tasks begin that calls have handed on, and hand in what they came to; False: there are none."""
    for inner in story.living():
        if inner.run.visit.phase == "leaving":
            run_to_completion(inner, is_new_request=True)
            return True
    return hand_in(story)


_BEGINS = frozenset({"turn", "call", "asking", "resting", "branches"})
"""The phases that have something to tell before anything happens."""


def begin_work(story: Story, *, is_new_request: bool) -> bool:
    """Tell the next thing the state's work begins with or comes to; False: there is none.

    `is_new_request`: the model request the run is owed, if it is, has not begun yet.
    """
    run = story.run
    if run.visit.phase not in _BEGINS:
        return False
    match run.visit.phase:
        case "turn" if run.usage.is_over_budget and not is_new_request:
            return False
        case "resting" if run.usage.is_over_budget:
            return False
        case "turn" | "call" if (is_new_request or run.visit.phase == "call") and (
            _is_idle(run) and (over := exceeded(story, is_call=run.visit.phase == "call"))
        ):
            return over_budget(story, over)
        case "turn":
            return _prompt(story)
        case "call":
            return _call(story)
        case "asking":
            return not story.own_questions() and _ask(story)
        case "resting":
            return WAITED not in run.visit.timers and _rest(story)
        case "branches":
            return _advance(story)
        case _:
            return False


def pause_if_over(story: Story) -> None:
    """Let what asks no model and calls no tool wait, too, where states entered or minutes are used up.

    To be asked right after a state was entered, when nothing of it is under way.
    """
    if story.run.visit.phase in FREE and (over := exceeded(story, is_free=True)):
        over_budget(story, over)


def _is_idle(run: Run) -> bool:
    """Return whether no call of the state is under way: what is, is let end."""
    return run.visit.turn is None or not run.visit.turn.calls


def _fill(story: Story, value: Json, what: str) -> tuple[Json, bool]:
    """Return a value with its templates filled in; False: it could not be, which was told."""
    try:
        return filled(value, lambda path: look_up(story.run, path)), True
    except (BadTemplate, TemplateFailed) as error:
        words = f"{what} of the state {story.run.visit.state!r}: {error.what}"
        failed(story, "template", words, error.hint, fault="author")
        return None, False


# --- prompts and tools --------------------------------------------------------------------------


def _prompt(story: Story) -> bool:
    run = story.run
    prompt = run.plan.states[run.visit.state].prompt
    turn = run.visit.turn
    if turn is None or turn.is_prompted or turn.calls or turn.request > 1:
        return False
    if not run.halt.is_heard and run.halt.resume_input:
        # They cut a state without an agent: the first one to speak since then hears them.
        join_words(story, run.halt.resume_input)
        return True
    if prompt is None:
        return False
    text, is_filled = _fill(story, prompt, "The prompt")
    if is_filled:
        story.tell(e.Prompted(agent=turn.agent, text=as_text(text)))
    return True


def _call(story: Story) -> bool:
    run = story.run
    if run.visit.turn is None:
        _plan_call(story)
        return True
    call = run.visit.turn.calls[0]
    if call.status != "done":
        return False
    if call.call.name == JOIN_WORKTREE:
        _close_join(story, call)
    elif call.outcome == "completed":
        value = steering.value_of(call.result)
        story.tell(e.WorkDone(state=run.visit.state, value=value, text=call.result))
    elif call.outcome in ("unknown", "stopped") and _was_cut(call):
        steering.ask_again(story, call)
    elif call.result == steering.OUTCOMES[steering.DID_NOT_HAPPEN][1]:
        _plan_call(story)
    else:
        words = f"The tool {call.call.name} of the state {run.visit.state!r} {_ENDS[call.outcome]}"
        kind: ErrorKind = "denied" if call.outcome == "denied" else "tool"
        failed(story, kind, f"{words}: {call.result}")
    return True


def _close_join(story: Story, call: OpenCall) -> None:
    """Go on after a worktree was to be merged. What was not is no error of the branch, whose work is done:
    the run around it hears of it when its branches join.
    """
    run = story.run
    if call.outcome in ("stopped", "unknown") or call.result in MADE_ANEW:
        _plan_call(story)
    elif call.outcome == "completed":
        story.tell(e.WorkDone(state=run.visit.state, text=call.result))
    else:
        kept = f"What was changed is kept on the git branch {git_branch(run)}."
        text = f"{call.result}\n{kept}"
        story.tell(e.WorkDone(state=run.visit.state, value=CONFLICT, text=text))


def _was_cut(call: OpenCall) -> bool:
    """Return whether a person has not been asked yet what became of a call."""
    return call.effect == "once" and call.result != steering.OUTCOMES[steering.NOT_KNOWN][1]


_ENDS: dict[Outcome, str] = {
    "failed": "failed",
    "denied": "was refused",
    "not_run": "was not run",
    "stopped": "was stopped",
    "unknown": "has an unknown outcome",
}


def _plan_call(story: Story) -> None:
    run = story.run
    state = run.plan.states[run.visit.state]
    arguments, is_filled = _fill(story, state.arguments, "The arguments")
    if not is_filled:
        return
    tools = definition_of(run).tools
    name = state.tool or ""
    if name not in tools:
        failed(
            story, "tool", f"There is no tool {name!r}, which the state {run.visit.state!r} calls."
        )
        return
    call = ToolCall(id=story.next_call_id(), name=name, arguments=arguments)
    story.tell(e.CallPlanned(call=call))
    begin_call(story, "", call, tools)


# --- questions and waits ------------------------------------------------------------------------


def _ask(story: Story) -> bool:
    run = story.run
    spec = run.plan.states[run.visit.state].ask
    ask = spec if isinstance(spec, Ask) else Ask(question=spec or "")
    question, is_filled = _fill(story, [ask.question, *ask.choices], "The question")
    if is_filled:
        text, *choices = map(as_text, question)
        story.tell(
            e.QuestionAsked(
                question_id=story.next_question_id(),
                number=story.next_number(),
                kind="question",
                text=text,
                choices=tuple(choices),
                schema=ask.schema,
            )
        )
    return True


def _rest(story: Story) -> bool:
    """Find out when a wait is over that says so; for one of some seconds the clock is asked."""
    until = wait_of(story.run.plan.states[story.run.visit.state]).until
    if until is None:
        return False
    text, is_filled = _fill(story, until, "The time")
    if not is_filled:
        return True
    at = time_of(text)
    if at is None:
        words = f"The state {story.run.visit.state!r} waits until {text!a:.60}, which is no time."
        failed(story, "template", words, "Write one such as 2026-12-31T18:00:00Z.", fault="author")
    else:
        story.tell(e.TimerSet(timer=WAITED, until=max(at, 0.0)))  # below 0 a timer is over
    return True


# --- branches --------------------------------------------------------------------------------
#
# A branch sees a copy of `common_data` as it was; what it changed is merged when the branches join, in
# the order the workflow lists them. So the result does not depend on which one was faster.

MAX_DEPTH = 8
"""How deep branches may stand in each other: one that comes back to its own state has no end."""


def _advance(story: Story) -> bool:
    """Begin the next branch, let a halted one go on, or join; False: there is nothing to tell."""
    run = story.run
    state = run.plan.states[run.visit.state]
    names = _names(run, state)
    if names is None:
        assert state.for_each is not None
        each = state.for_each.items
        words = (
            f"The state {run.visit.state!r} has a branch for each item of {each}, which is no list."
        )
        hint = "Start the workflow with a list." if each == "input" else "It takes a list."
        _give_up(story, "template", words, hint)
        return True
    branches = run.visit.branches
    living = [name for name, branch in branches.items() if branch.visit.phase != "ended"]
    counts = [branches[name].status for name in names if name in branches]
    done = counts.count("finished")
    lost = len(counts) - done - counts.count("running")
    enough = _enough(state, len(names))
    if done >= enough:
        return _join(story, state, names, map(story.within, living))
    if lost > len(names) - enough:
        return _lose(story, state, names, [story.within(name) for name in living])
    for name in living:
        if branches[name].visit.phase in ("held", "waiting") and _goes_on(story.within(name)):
            run_to_completion(story.within(name), is_new_request=True)
            return True
    room = state.for_each.max_concurrency if state.for_each is not None else len(names)
    if len(living) >= room:
        return False
    new = next((name for name in names if name not in branches), None)
    return new is not None and _begin(story, state, new)


def _enough(state: State, count: int) -> int:
    """Return how many branches the state needs."""
    if state.join == "all":
        return count
    return min(1 if state.join == "any" else state.join, count)


def _names(run: Run, state: State) -> Sequence[str] | None:
    """Return the name of every branch of the state, in order; None: there is no list to go through."""
    if state.for_each is not None:
        items = look_up(run, state.for_each.items)
        # Should the list have grown while they were halted, they are still called what they were.
        width = len(next(iter(run.visit.branches), ""))
        return _numbers(len(items), width) if isinstance(items, list) else None
    sub = sub_workflow(state)
    if sub is not None:
        return [sub.name]
    return list(dict.fromkeys(branch.name for branch in branches_of(state)))


@lru_cache(maxsize=64)
def _numbers(count: int, width: int) -> tuple[str, ...]:
    width = width or len(str(count))
    return tuple(str(number).zfill(width) for number in range(1, count + 1))


def _begin(story: Story, state: State, name: str) -> bool:
    """Begin a branch, or ask or fail over a budget; False: neither, while others use up the last of it."""
    run = story.run
    if over := exceeded(story):
        if story.living():
            return False
        if is_asked(story):
            return ask_for_more(story, over)
        failed(story, "budget", over)
        return True
    if story.path.count("/") + bool(story.path) >= MAX_DEPTH:
        words = f"State {run.visit.state!r} would begin a branch within {MAX_DEPTH} others."
        _give_up(story, "branch", words, "Does a branch lead back to this state?")
        return True
    given, variables = run.input, {}
    sub = sub_workflow(state)
    if state.for_each is not None:
        index = int(name) - 1
        given, variables = look_up(run, f"{state.for_each.items}.{index}"), {"index": index}
    elif sub is not None:
        try:
            given, variables = filled([sub.input, sub.variables], lambda path: look_up(run, path))
        except (BadTemplate, TemplateFailed) as error:
            what = f"State {run.visit.state!r}: {error.what}"
            failed(story, "template", what, error.hint, fault="author")
            return True
    is_apart = has_worktree(branch_of(state, name))
    own = worktree_name(story, name) if is_apart else ""
    story.tell(e.BranchStarted(name=name, input=given, variables=variables, worktree=own))
    run_to_completion(story.within(name), is_new_request=True)
    return True


def _give_up(story: Story, kind: ErrorKind, error: str, hint: str) -> None:
    """Fail the state, once branches that are under way have stopped."""
    if story.living():
        steering.give_up(story, kind, error)
    else:
        failed(story, kind, error, hint, fault="author")


def _lose(story: Story, state: State, names: Sequence[str], living: Sequence[Story]) -> bool:
    """Fail the state, once those under way have stopped; False: they are being stopped.

    Where it is tried again they are held: they go on then, and what they did is not done twice.
    """
    run = story.run
    name, first = next(
        (n, b) for n in names if (b := run.visit.branches.get(n)) and b.status == "failed"
    )
    sub = sub_workflow(state)
    what = f"The sub-workflow {name}" if sub else f"The branch {name} of {run.visit.state!r}"
    kind: ErrorKind = "workflow" if sub else "branch"
    error = " ".join(filter(None, (f"{what} failed: {first.error}", kept_words(first))))
    if first.error and first.error == exceeded(story):
        kind, error = "budget", first.error
    told = len(story.whole.facts)
    if is_tried_again(run, kind):
        for inner in living:
            steering.hold_branch(inner, (), (steering.BEFORE_NEXT_TRY,) * 3)
    else:
        for inner in living:
            steering.stop_branch(inner, "another branch failed")
    if not all(is_at_rest(inner.run) for inner in living):
        return len(story.whole.facts) > told
    failed(story, kind, error)
    return True


def _goes_on(story: Story) -> bool:
    """Let a branch that was held with the run around it go on where it was cut, or hear its words.

    False: it waits for words, and has asked for them.
    """
    if story.run.visit.phase == "waiting":
        return not story.own_questions()
    words = [record for record in story.undelivered() if record.handling == "interrupt"]
    for record in words:
        story.dispose(record.id, "interrupted")
    if story.run.halt.cuts and not words:
        enter(story, INTERRUPTED, "going on")
    else:
        resume(story, "going on")
    return True


# --- joining ------------------------------------------------------------------------------------


def _join(story: Story, state: State, names: Sequence[str], living: Iterable[Story]) -> bool:
    """Join the branches, once those nobody needs any more have stopped; False: they are being stopped."""
    rest = list(living)
    if rest:
        told = [steering.stop_branch(inner, "the others were enough") for inner in rest]
        return any(told)
    run = story.run
    sub = sub_workflow(state)
    ended = {name: run.visit.branches[name] for name in names if name in run.visit.branches}
    done = {name: branch for name, branch in ended.items() if branch.status == "finished"}
    if sub is not None:
        _join_sub(story, sub, done[sub.name])
        return True
    data = run.common_data
    for branch in done.values():
        for change in branch.branch.changes:
            data = merged(data, change)
    before = run.common_data
    value: Json = {name: branch.output for name, branch in done.items()}
    if state.for_each is not None:
        value = [done[name].output if name in done else None for name in names]
    story.tell(
        e.WorkDone(
            state=run.visit.state,
            value=value,
            text=msgspec.json.encode(value).decode(),
            changed={k: v for k, v in data.items() if k not in before or before[k] is not v},
            removed=tuple(key for key in before if key not in data),
        )
    )
    kept = [f"{name}: {b.branch.unjoined}" for name, b in done.items() if b.branch.unjoined]
    if kept:
        # Once all is done: what one branch could not merge undoes nothing of the others.
        failed(story, CONFLICT, "\n".join(kept))
    return True


def _join_sub(story: Story, sub: SubWorkflow, inner: Run) -> None:
    changed: dict[str, Json] = {}
    for path, source in sub.output.items():
        first = path.removeprefix("common_data.").partition(".")[0]
        held = {**story.run.common_data, **changed}
        changed[first] = stored(held, path, _of_sub(inner, source))[first]
    output = inner.output
    text = "" if output is None else as_text(output)
    story.tell(e.WorkDone(state=story.run.visit.state, value=output, text=text, changed=changed))


def _of_sub(inner: Run, source: str) -> Json:
    first, *rest = source.split(".")
    found = within(inner.output, rest) if first == "output" else look_up(inner, source)
    return None if isinstance(found, Missing) else found
