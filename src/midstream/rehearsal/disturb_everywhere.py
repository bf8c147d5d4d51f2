"""A rehearsal disturbed at every point there is: does everything hold that must?

First it is played undisturbed, to see where the points are. Then once for each of them: the same
until there, the disturbance, and on to the end, improvised where the script no longer fits. Pairs are two
disturbances, the second at a moment after the first; there are very many, so some are drawn.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from midstream.core.events import RunFailed
from midstream.language.spec import Definition
from midstream.rehearsal import format as form
from midstream.rehearsal.comparison import fits_all
from midstream.rehearsal.fake_world import FakeWorld
from midstream.rehearsal.playback import Kind, Play, Point
from midstream.rehearsal.step_words import clipped
from midstream.runtime.ports import Handlers, ModelRequest, Validator

Refused: TypeAlias = Callable[[ModelRequest], Sequence[str]]


def refused_by_nobody(request: ModelRequest) -> Sequence[str]:
    """Return that nothing is wrong with a request."""
    return ()


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one point: what was broken, in words; nothing: it held. `end` is how it ended."""

    point: Point
    broken: tuple[str, ...]
    end: str


async def everywhere(
    rehearsal: form.Rehearsal,
    definition: Definition,
    handlers: Handlers,
    *,
    kinds: Iterable[Kind] = ("interrupt", "aside", "kill", "both"),
    validate: Validator = fits_all,
    pairs: int = 0,
    seed: int = 1,
    only: Point | None = None,
    refused: Refused = refused_by_nobody,
) -> list[Tried]:
    """Return what came of every point of a rehearsal, or of one.

    Args:
        rehearsal: what happens.
        definition: the workflow.
        handlers: the functions of its script; they run for real, many times.
        kinds: which disturbances.
        validate: checks answers against the schemas of questions.
        pairs: how many times to disturb it twice; which times is drawn by the `seed`.
        seed: draws the pairs.
        only: the one point to try.
        refused: returns why a provider would not take a request, [] when it would.
    """
    wanted = tuple(kinds)

    async def played(point: Point | None) -> Play:
        play = Play(rehearsal, FakeWorld(definition, handlers, validate), point)
        await play.play()
        return play

    base = await played(None)
    failed = isinstance(base.facts()[-1], RunFailed)

    def judged(play: Play, point: Point) -> Tried:
        broken = [*play.broken, *play.judged(base, may_fail=failed)]
        broken += [why for request in play.requests for why in refused(request)]
        run = play.driver.fake.notebook.folded()
        end = run.error if run.status == "failed" else run.status
        return Tried(point=point, broken=tuple(broken), end=clipped(end))

    tried = []
    possible: list[Point] = []
    for point in base.points(wanted) if only is None else [only]:
        play = await played(point)
        tried.append(judged(play, point))
        if pairs and point.kind != "both":
            later = [then for then in play.later if then.kind in wanted]
            possible += [msgspec.structs.replace(point, then=then) for then in later]
    drawn = random.Random(seed).sample(possible, min(pairs, len(possible)))  # nosec B311  # no secret
    return [*tried, *[judged(await played(point), point) for point in drawn]]


def table(tried: Sequence[Tried]) -> str:
    """Return the points tried, held and broken, by kind, and how to replay each that broke."""
    lines = [f"{'':<10}{'tried':>7}{'held':>7}{'broken':>7}"]
    for kind in ("interrupt", "aside", "kill", "both", "pairs"):
        these = [
            each for each in tried if kind == ("pairs" if each.point.then else each.point.kind)
        ]
        held = sum(not each.broken for each in these)
        if these:
            lines.append(f"{kind:<10}{len(these):>7}{held:>7}{len(these) - held:>7}")
    for each in tried:
        lines += [f"--point {each.point}: {words}" for words in each.broken]
    return "\n".join(lines)
