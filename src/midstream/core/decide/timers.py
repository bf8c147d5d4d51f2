"""Waits for a time: when they began, and what comes when they are over."""

from midstream.core.decide import steering
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import enter, failed
from midstream.core.events import QuestionExpired, StateRetried, TimerSet, WorkDone, WorkflowOutput
from midstream.core.inputs import TimerRang, TimerStarted
from midstream.core.pending import set_key, timer_key, timers_owed
from midstream.core.run import DEADLINE, RETRY, TIMEOUT, WAITED
from midstream.language.spec import Ask


def timer_started(story: Story, input: TimerStarted) -> None:
    """Keep when a wait is over."""
    run = story.run
    for name in timers_owed(run) if run.visit.state else ():
        if name not in run.visit.timers and input.key == set_key(run, name):
            story.tell(TimerSet(timer=name, until=input.until))
            return


def timer_rang(story: Story, input: TimerRang) -> None:
    """Do what the state says comes when a wait is over."""
    run = story.run
    owed = timers_owed(run) if run.visit.state else {}
    name = next((n for n in owed if n in run.visit.timers and input.key == timer_key(run, n)), None)
    if name == TIMEOUT:
        took = run.plan.states[run.visit.state].timeout_s
        error = f"The state {run.visit.state!r} took longer than {took:g} s."
        steering.give_up(story, "timeout", error, steering.shown_in(story, input.shown))
    elif name == WAITED:
        story.tell(WorkDone(state=run.visit.state))
    elif name == RETRY:
        story.tell(StateRetried(state=run.visit.state))
    elif name == DEADLINE:
        _expired(story)


def _expired(story: Story) -> None:
    run = story.run
    ask = run.plan.states[run.visit.state].ask
    question = next(iter(story.own_questions()), None)
    if not isinstance(ask, Ask) or question is None:
        return
    stays = ask.on_timeout == "wait"
    story.tell(QuestionExpired(question_id=question.id, stays=stays))
    match ask.on_timeout:
        case "wait":
            story.tell(WorkflowOutput(text=f"Question #{question.number} still waits for you."))
        case "default":
            text = ask.default if isinstance(ask.default, str) else ""
            story.tell(WorkDone(state=run.visit.state, value=ask.default, text=text))
        case "goto" if ask.to is not None:
            enter(story, ask.to, "nobody answered in time")
        case _:
            failed(story, "deadline", f"Nobody answered #{question.number} in time.")
