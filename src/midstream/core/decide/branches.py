"""The branches of a state: begun as there is room, joined when enough of them are done.

A branch sees a copy of `common_data` as it was; what it changed is merged (`midstream.core.decide.merge`)
when the branches join, in the order the workflow lists them. So the result does not depend on which
one was faster.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec

from midstream.core.budgets import exceeded
from midstream.core.decide import steering
from midstream.core.decide.budget_exhausted import ask_for_more, is_asked
from midstream.core.decide.merge import merged
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import enter, failed, is_tried_again, resume
from midstream.core.events import BranchStarted, WorkDone
from midstream.core.fold.fold_halts import is_at_rest
from midstream.core.run import Run, plan_for
from midstream.core.run_data import look_up
from midstream.language.branch_spec import branches_of, sub_workflow
from midstream.language.data_paths import Missing, stored, within
from midstream.language.names import INTERRUPTED, ErrorKind, Json
from midstream.language.spec import State, SubWorkflow
from midstream.language.templates import BadTemplate, TemplateFailed, filled

MAX_DEPTH = 8
"""How deep branches may stand in each other: one that comes back to its own state has no end."""


def advance(story: Story, begin_branch: Callable[[Story], None]) -> bool:
    """Begin the next branch, let a halted one go on, or join; False: there is nothing to tell."""
    run = story.run
    state = plan_for(run).states[run.visit.state]
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
            begin_branch(story.within(name))
            return True
    room = state.for_each.max_concurrency if state.for_each is not None else len(names)
    if len(living) >= room:
        return False
    new = next((name for name in names if name not in branches), None)
    return new is not None and _begin(story, state, new, begin_branch)


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


def _begin(story: Story, state: State, name: str, begin_branch: Callable[[Story], None]) -> bool:
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
    story.tell(BranchStarted(name=name, input=given, variables=variables))
    begin_branch(story.within(name))
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
    error = f"{what} failed: {first.error}"
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
        WorkDone(
            state=run.visit.state,
            value=value,
            text=msgspec.json.encode(value).decode(),
            changed={k: v for k, v in data.items() if k not in before or before[k] is not v},
            removed=tuple(key for key in before if key not in data),
        )
    )
    return True


def _join_sub(story: Story, sub: SubWorkflow, inner: Run) -> None:
    changed: dict[str, Json] = {}
    for path, source in sub.output.items():
        first = path.removeprefix("common_data.").partition(".")[0]
        held = {**story.run.common_data, **changed}
        changed[first] = stored(held, path, _of_sub(inner, source))[first]
    output = inner.output
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    text = "" if output is None else text
    story.tell(WorkDone(state=story.run.visit.state, value=output, text=text, changed=changed))


def _of_sub(inner: Run, source: str) -> Json:
    first, *rest = source.split(".")
    found = within(inner.output, rest) if first == "output" else look_up(inner, source)
    return None if isinstance(found, Missing) else found
