"""A plan that an agent proposes with `propose_plan`, and a person approves, changes or rejects. Pure.

The card is an approval: a yes is bound to exactly what it showed. The steps of an approved plan are the
todo list, read off the call as the person left it.
"""

import hashlib
import re
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from midstream.core.todo import MAX_CHARS, MAX_ITEMS, TodoItem
from midstream.language.errors import UserMistake, clip
from midstream.language.names import PROPOSE_PLAN, Json
from midstream.safety.capability import SHOWN, PermissionMode
from midstream.safety.sanitize import on_one_line

MAX_STEP: Final = 500
"""Characters of one step, and of the title."""

Onwards: TypeAlias = Literal["ask", "auto"]
"""The permission mode an approved plan is carried out in. No plan leads to `full`."""

ONWARDS: Final[tuple[Onwards, ...]] = ("ask", "auto")

CHANGED: Final = "changed"
"""The answer to a card whose plan the person has changed: they are asked about that one next."""

_YES: Final = "yes, in "
_MARK: Final = re.compile(r"(?:#+|[-*•]|\d{1,3}[.)])\s+")

_Words: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_STEP)]


class Proposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan: what it is for, and its steps in their order."""

    title: _Words
    steps: Annotated[tuple[_Words, ...], msgspec.Meta(min_length=1, max_length=MAX_ITEMS)]


def proposal_of(arguments: dict[str, Json]) -> Proposal:
    """Return the plan a call proposes, a line each for its title and its steps.

    Raises:
        UserMistake: it is none.
    """
    try:
        found = msgspec.convert(arguments, Proposal)
        # Of several lines one could look like the next step, or like what stands below the plan.
        plan = {"title": on_one_line(found.title), "steps": tuple(map(on_one_line, found.steps))}
        return msgspec.convert(plan, Proposal)
    except msgspec.ValidationError as error:
        hint = (
            f"A plan has a title and 1 to {MAX_ITEMS} steps, each of at most {MAX_STEP} characters."
        )
        raise UserMistake(f"That is no plan: {error}.", hint=hint) from None


def shown(proposal: Proposal) -> str:
    """Return what a card shows: the tool's name, as of every call, the title and the numbered steps."""
    return f"{PROPOSE_PLAN}\n{written(proposal)}"


def written(proposal: Proposal) -> str:
    """Return a plan as a person changes it; `rewritten` reads it."""
    width = len(str(len(proposal.steps)))
    steps = (f"{n:{width}}. {step}" for n, step in enumerate(proposal.steps, 1))
    return "\n".join((proposal.title, *steps))


def rewritten(text: str) -> Proposal:
    """Return the plan a person wrote: its title, then a step a line, numbered or not.

    Raises:
        UserMistake: it is none.
    """
    lines = [_MARK.sub("", line.strip(), count=1) for line in text.splitlines() if line.strip()]
    return proposal_of({"title": lines[0] if lines else "", "steps": lines[1:]})


def seal_of(proposal: Proposal) -> str:
    """Return what binds a yes to what was shown."""
    return SHOWN + hashlib.sha256(shown(proposal).encode("utf-8", "surrogatepass")).hexdigest()


def yes_in(mode: Onwards) -> str:
    """Return the answer that approves a plan, to be carried out in a mode."""
    return f"{_YES}{mode}"


def mode_of(answer: Json) -> Onwards | None:
    """Return the mode an answer to a card leads to, None where it approves nothing."""
    return next((mode for mode in ONWARDS if answer == yes_in(mode)), None)


def steps_to_do(arguments: dict[str, Json]) -> tuple[TodoItem, ...] | None:
    """Return the todo list that the steps of an approved plan are; None where there is no plan."""
    try:
        steps = proposal_of(arguments).steps
    except UserMistake:
        return None
    return tuple(TodoItem(text=clip(step, MAX_CHARS)) for step in steps)


def told_of_yes(proposal: Proposal, mode: Onwards, *, was_changed: bool, keeps_list: bool) -> str:
    """Return what the model is told of a plan that was approved."""
    words = "The user approved the plan: it"
    if was_changed:
        words = f"The user approved the plan after changing it. It is now:\n{written(proposal)}\nIt"
    keeps = (
        " Mark a step doing before you begin it, and done as soon as it is." if keeps_list else ""
    )
    return (
        f"{words} is to be carried out now, step by step: the permission mode is {mode}, "
        f"and the steps are the todo list.{keeps}"
    )


def told_of_no(note: str) -> str:
    """Return what the model is told of a plan that was rejected."""
    said = f" They said: {note}" if note else ""
    return f"The user rejected this plan: nothing of it is to be done.{said}"


def told_of_mode(mode: PermissionMode) -> str:
    """Return what an agent is told once the permission mode became `plan`, or is so no longer."""
    if mode != "plan":
        return f"[The permission mode is {mode} now, no longer plan.]"
    return (
        f"[The permission mode is plan: look, change nothing. Once you know enough, call {PROPOSE_PLAN}: "
        "the user approves, changes or rejects the steps, and after a yes you carry them out.]"
    )
