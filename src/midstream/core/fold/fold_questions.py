"""Questions: asked, answered, closed."""

from typing import Literal

from msgspec.structs import replace

from midstream.core.append_only import logged, relogged
from midstream.core.events import QuestionAnswered, QuestionAsked, QuestionExpired
from midstream.core.fold.fold_states import after_phase
from midstream.core.fold.fold_turns import with_call
from midstream.core.question import NO_LIMIT, OUTCOMES, STOP_THERE, Question
from midstream.core.run import DEADLINE, Run, definition_of, with_inbox, with_usage, with_visit
from midstream.language.names import START, Json
from midstream.language.plan import named_input


def question_in(fact: QuestionAsked, *, branch: str) -> Question:
    """Return the question a fact asks in a branch, open."""
    return Question(
        id=fact.question_id,
        number=fact.number,
        kind=fact.kind,
        text=fact.text,
        agent=fact.agent,
        call_id=fact.call_id,
        choices=fact.choices,
        schema=fact.schema,
        branch=branch,
        asks=fact.asks,
        why=fact.why,
        about=fact.about,
        command=fact.command,
    )


def asked(run: Run, fact: QuestionAsked) -> Run:
    """Return the run with one more open question."""
    question = question_in(fact, branch=run.branch.path)
    run = with_inbox(
        run,
        questions=logged(run.inbox.questions, question),
        open_questions=(*run.inbox.open_questions, question),
        last_number=max(run.inbox.last_number, fact.number),
    )
    return with_call(run, fact.call_id, status="parked") if fact.call_id else run


def answered(run: Run, fact: QuestionAnswered) -> Run:
    """Return the run after an answer; one the run waited for moves it on."""
    question = next(q for q in run.inbox.open_questions if q.id == fact.question_id)
    run = closed(run, fact.question_id, "answered")
    if question.about == "budget":
        return _raised(run, fact.answer)
    turn = run.visit.turn
    if turn is not None and any(each.call.id == question.call_id for each in turn.external):
        return with_call(run, question.call_id, status="running")
    if question.kind != "input":
        return _told_outcome(run, question.call_id, fact.answer)
    if run.visit.state == "":
        given = named_input(definition_of(run).workflow, fact.answer)
        data = {**given, **run.common_data}
        run = replace(run, input=fact.answer, common_data=data)
        return with_visit(run, phase="leaving", chosen=START)
    return after_phase(run, "waiting")


def _raised(run: Run, answer: Json) -> Run:
    """Return the run, and all within it, with what its budgets were raised to."""
    if answer == STOP_THERE:
        return run
    times = 0 if answer == NO_LIMIT else run.usage.budget_times + 1
    return with_usage(below_budget(run), budget_times=times)


def below_budget(run: Run) -> Run:
    """Return the run with nothing of it waiting for a budget to be raised."""
    branches = {name: below_budget(branch) for name, branch in run.visit.branches.items()}
    usage = replace(run.usage, is_over_budget=False)
    return replace(run, usage=usage, visit=replace(run.visit, branches=branches))


def _told_outcome(run: Run, call_id: str, answer: Json) -> Run:
    """Return the run with what became of its state's own call, which had ended in doubt before."""
    call = run.visit.turn.calls[0] if run.visit.turn is not None and run.visit.turn.calls else None
    if call is None or call.call.id != call_id or call.outcome not in ("unknown", "stopped"):
        return run
    outcome, result = OUTCOMES[answer]
    return with_call(run, call_id, status="done", outcome=outcome, result=result)


def closed(run: Run, question_id: str, status: Literal["answered", "superseded", "expired"]) -> Run:
    """Return the run with a question closed."""
    # Open questions are near the end: looking from there keeps long chats cheap.
    known = run.inbox.questions
    place = next(n for n in reversed(range(len(known))) if known[n].id == question_id)
    questions = relogged(known, place, replace(known[place], status=status))
    still_open = tuple(q for q in run.inbox.open_questions if q.id != question_id)
    return with_inbox(run, questions=questions, open_questions=still_open)


def expired(run: Run, fact: QuestionExpired) -> Run:
    """Return the run after the time to answer was over; the question may stay open."""
    run = with_visit(run, timers={**run.visit.timers, DEADLINE: -1.0})
    return run if fact.stays else closed(run, fact.question_id, "expired")
