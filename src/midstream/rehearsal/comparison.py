"""A rehearsal played against the workflow and script of today: what is the first thing that differs?"""

from collections.abc import Sequence

import msgspec

from midstream.core.conversation import Message
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.spec import Definition
from midstream.rehearsal import format as form
from midstream.rehearsal.fake_world import FakeWorld
from midstream.rehearsal.scenario_driver import Driver, Misfit, message_in_words
from midstream.rehearsal.step_words import as_json, clipped, step_in_words
from midstream.runtime.ports import Handlers, Validator


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that is not as it was. `step` counts from 1; None: it is about the end."""

    step: int | None
    about: str
    expected: str
    got: str

    def __str__(self) -> str:
        """Return the difference in three lines."""
        where = "at the end" if self.step is None else f"at step {self.step}"
        return f"{where}: {self.about}\n  expected: {self.expected}\n  got:      {self.got}"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a rehearsal. `difference` None: all was as it was."""

    difference: Difference | None
    run: Run
    facts: tuple[Envelope, ...]


def fits_all(value: Json, schema: dict[str, Json]) -> str:
    """Return that any value fits: the validator of rehearsals without one."""
    return ""


async def replay(
    rehearsal: form.Rehearsal,
    definition: Definition,
    handlers: Handlers,
    *,
    validate: Validator = fits_all,
    compares: bool = True,
) -> Replay:
    """Return what comes of a rehearsal with a workflow as it is now. Nothing outside is touched.

    Args:
        rehearsal: what happens, and what is expected.
        definition: the workflow.
        handlers: the functions of its script. They run for real, in their order, each to its end.
        validate: checks answers against the schemas of questions.
        compares: False only lets the steps happen: a difference is then a step that does not fit.
    """
    if not compares:
        rehearsal = _unexpecting(rehearsal)
    fake = FakeWorld(definition, handlers, validate)
    driver = Driver(rehearsal, fake)
    await driver.begin()
    try:
        difference = await _first_difference(rehearsal, driver, compares=compares)
        facts = tuple(fake.notebook.envelopes())
        return Replay(difference=difference, run=fake.run, facts=facts)
    finally:
        await driver.close()


def _unexpecting(rehearsal: form.Rehearsal) -> form.Rehearsal:
    replace = msgspec.structs.replace
    steps = tuple(
        replace(step, seen="") if isinstance(step, form.ModelReplied | form.ModelFailed) else step
        for step in rehearsal.steps
    )
    return replace(rehearsal, steps=steps)


async def _first_difference(
    rehearsal: form.Rehearsal, driver: Driver, *, compares: bool
) -> Difference | None:
    for number, step in enumerate(rehearsal.steps, 1):
        await driver.handlers_until(step)
        if compares and (other := _other_states(rehearsal, driver, number, is_end=False)):
            return other
        misfit: Misfit | None = driver.misfit(step)
        if not driver.fake.life.is_over:
            misfit = await driver.do(step)
        if misfit is not None:
            return Difference(
                step=number,
                about=step_in_words(step),
                expected=misfit.expected,
                got=misfit.got,
            )
    if not rehearsal.expected.is_midway:
        await driver.handlers_until(None)
    else:
        await driver.fake.life.quiet()
    if driver.fake.run.is_over:
        await driver.fake.life.machine.wait()
    return _other_end(rehearsal, driver) if compares else None


def _other_states(
    rehearsal: form.Rehearsal, driver: Driver, step: int | None, *, is_end: bool
) -> Difference | None:
    asked = rehearsal.expected
    ways = dict(asked.branches) if asked.states is None else {"": asked.states, **asked.branches}
    for branch, expected in ways.items():
        if other := _other_way(driver, step, branch, expected, is_end=is_end):
            return other
    return None


def _other_way(
    driver: Driver, step: int | None, branch: str, expected: Sequence[str], *, is_end: bool
) -> Difference | None:
    """Return how the states that the run, or a branch of it, has entered are others."""
    got = driver.fake.states(branch)
    number = _parting(expected, got)
    is_same = number == len(got) and (number == len(expected) or not is_end)
    if is_same:
        return None
    after = f"after {got[number - 1]}" if number else "at the start"
    if branch:
        after += f" of the branch {branch}"
    return Difference(
        step=step,
        about=f"state {number + 1}, {after}",
        expected=expected[number] if number < len(expected) else "no further state",
        got=got[number] if number < len(got) else driver.in_words(),
    )


def _parting(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of the first item in which two differ, from 0; the shorter one may end there."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (this, that) in pairs if this != that), min(len(one), len(other)))


def _other_end(rehearsal: form.Rehearsal, driver: Driver) -> Difference | None:
    expected, run = rehearsal.expected, driver.fake.run
    if (other := _other_states(rehearsal, driver, None, is_end=True)) is not None:
        return other
    if expected.is_midway:
        return None
    is_other_error = expected.error and form.without_places(run.error) != form.without_places(
        expected.error
    )
    if expected.status not in (None, run.status) or is_other_error:
        why = f": {expected.error}" if expected.error else ""
        return Difference(
            step=None,
            about="how the run stands",
            expected=clipped(f"{expected.status or 'failed'}{why}"),
            got=driver.in_words(),
        )
    if (message := _other_message(expected, run)) is not None:
        return message
    if expected.output is not msgspec.UNSET and run.output != expected.output:
        return Difference(
            step=None,
            about="the output",
            expected=_part(expected.output, run.output),
            got=_part(run.output, expected.output),
        )
    return None


def _other_message(expected: form.Expected, run: Run) -> Difference | None:
    for context, recorded in expected.contexts.items():
        now = run.contexts.get(context, ())
        if now == recorded:
            continue
        number = _parting(recorded, now)
        return Difference(
            step=None,
            about=f"message {number + 1} of the context {context}",
            expected=_message(recorded, number),
            got=_message(now, number),
        )
    return None


def _message(messages: Sequence[Message], number: int) -> str:
    return message_in_words(messages[number]) if number < len(messages) else "no further message"


def _part(value: Json, other: Json) -> str:
    """Return a value in a line, from a little before the place where two texts part."""
    if not (isinstance(value, str) and isinstance(other, str)):
        return clipped(as_json(value))
    start = max(0, _parting(value, other) - 30)
    return clipped(f"{'...' if start else ''}{value[start:]}")
