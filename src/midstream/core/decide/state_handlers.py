"""The work of a state begins, and what it comes to: prompts, tools, questions, waits, branches.

`begin_work` tells one thing at a time; `run_to_completion` asks until there is nothing to tell.
"""

from collections.abc import Callable

import msgspec

from midstream.core import events as e
from midstream.core.budgets import exceeded
from midstream.core.conversation import ToolCall
from midstream.core.decide import steering
from midstream.core.decide.branches import advance
from midstream.core.decide.budget_exhausted import over_budget
from midstream.core.decide.calls import begin_call
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import failed, join_words
from midstream.core.run import FREE, OpenCall, Run, definition_of, plan_for
from midstream.core.run_data import look_up
from midstream.core.timer_names import WAITED
from midstream.language.branch_spec import wait_of
from midstream.language.names import ErrorKind, Json, Outcome
from midstream.language.spec import Ask
from midstream.language.templates import BadTemplate, TemplateFailed, filled
from midstream.language.times import time_of

_BEGINS = frozenset({"turn", "call", "asking", "resting", "branches"})
"""The phases that have something to tell before anything happens."""


def begin_work(
    story: Story, begin_branch: Callable[[Story], None], *, is_new_request: bool
) -> bool:
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
            return advance(story, begin_branch)
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


def as_text(value: Json) -> str:
    """Return a value as people and models read it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# --- prompts and tools --------------------------------------------------------------------------


def _prompt(story: Story) -> bool:
    run = story.run
    prompt = plan_for(run).states[run.visit.state].prompt
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
    if call.outcome == "completed":
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
    state = plan_for(run).states[run.visit.state]
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
    spec = plan_for(run).states[run.visit.state].ask
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
    until = wait_of(plan_for(story.run).states[story.run.visit.state]).until
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
