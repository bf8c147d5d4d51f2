"""Where a rehearsal can be disturbed, and how: the names of the points."""

from typing import Literal, TypeAlias

import msgspec

from midstream.language.errors import UserMistake

Kind: TypeAlias = Literal["interrupt", "aside", "kill", "both"]
Moment: TypeAlias = Literal["lost", "kept", "flying"]

_KINDS: dict[str, Kind] = {
    "interrupt": "interrupt",
    "aside": "aside",
    "kill": "kill",
    "both": "both",
}
_MOMENTS: dict[str, Moment] = {"lost": "lost", "kept": "kept", "flying": "flying"}


class Then(msgspec.Struct, frozen=True, kw_only=True):
    """A second disturbance: at the `nth` append (`lost`, `kept`) or wait (`flying`) after the first."""

    kind: Kind
    nth: int
    moment: Moment = "kept"

    def __str__(self) -> str:
        """Return its part of a point's name."""
        return _named(self.kind, self.nth, self.moment)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbance of a rehearsal, or two.

    `seq` is a fact's number. `lost`: what it tells of has happened, and is not kept. `kept`: right
    after it was kept, before anything follows. `flying`: what follows it is under way. `aside`: words
    to one of the branches that are under way. `both`: an interruption while things are under way, and a
    kill as soon as the halt waits for something. `then`: and later another.
    """

    kind: Kind
    seq: int
    moment: Moment = "kept"
    then: Then | None = None

    def __str__(self) -> str:
        """Return the point's name, such as `kill:17` or `interrupt:4:flying+kill:2:lost`."""
        then = "" if self.then is None else f"+{self.then}"
        return f"{_named(self.kind, self.seq, self.moment)}{then}"


def point_named(name: str) -> Point:
    """Return the point of a name.

    Raises:
        UserMistake: it is none.
    """
    first, plus, second = name.partition("+")
    kind, seq, moment = _parts(name, first)
    if not plus:
        return Point(kind=kind, seq=seq, moment=moment)
    after, nth, when = _parts(name, second)
    if "both" in (kind, after) or nth == 0:
        raise _no_point(name)
    return Point(kind=kind, seq=seq, moment=moment, then=Then(kind=after, nth=nth, moment=when))


def _parts(name: str, part: str) -> tuple[Kind, int, Moment]:
    kind, _, rest = part.partition(":")
    number, _, moment = rest.partition(":")
    is_number = number.isascii() and number.isdigit()
    if kind not in _KINDS or not is_number or (moment or "kept") not in _MOMENTS:
        raise _no_point(name)
    return _KINDS[kind], int(number), _MOMENTS[moment or "kept"]


def _no_point(name: str) -> UserMistake:
    return UserMistake(
        f"{name!r} is not a point.",
        hint="Write one such as kill:17, interrupt:4:flying or, for two, kill:17:lost+interrupt:2.",
    )


def _named(kind: Kind, number: int, moment: Moment) -> str:
    return f"{kind}:{number}{'' if moment == 'kept' else f':{moment}'}"
