"""A budget is used up: the state fails where that is caught or nobody is there, else a person is asked."""

from midstream.core.budget_words import ANSWERS
from midstream.core.budgets import allows_none
from midstream.core.decide import steering
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import catch_of
from midstream.core.events import BudgetReached, QuestionAsked
from midstream.core.run import plan_for
from midstream.language.names import ErrorKind


def over_budget(story: Story, what: str) -> bool:
    """End the state's work over a used up budget, or where nothing catches that, ask a person.

    Only what begins anew waits for the answer: what is under way is let end. False: it waits already.
    """
    if not is_asked(story):
        steering.give_up(story, "budget", what)
        return True
    return ask_for_more(story, what)


def is_asked(story: Story) -> bool:
    """Return whether a person is asked to raise a budget, instead of the state failing over it."""
    return story.whole.run.approvals != "deny" and not (_is_caught(story) or allows_none(story))


def ask_for_more(story: Story, what: str) -> bool:
    """Let the story wait for a budget to be raised; several that wait are asked about once."""
    run, whole = story.run, story.whole
    if run.usage.is_over_budget:
        return False
    story.tell(BudgetReached(state=run.visit.state, what=what))
    if not any(question.about == "budget" for question in whole.run.inbox.open_questions):
        whole.tell(
            QuestionAsked(
                question_id=whole.next_question_id(),
                number=whole.next_number(),
                kind="question",
                text=f"{what} Go on?",
                choices=ANSWERS,
                about="budget",
            )
        )
    return True


def _is_caught(story: Story) -> bool:
    """Return whether the state, or one around it, says what to do when a budget is used up."""
    state = plan_for(story.run).states[story.run.visit.state]
    if state.retry is not None and bool({"budget", "any"} & set(state.retry.on)):
        return True
    around = [plan_for(each.run).states[each.run.visit.state] for each in story.around_it()]
    kinds: tuple[ErrorKind, ...] = ("budget", "branch", "workflow")
    return catch_of(state, "budget") is not None or any(
        catch_of(each, kind) is not None for each in around for kind in kinds
    )
