"""Where a rehearsal can be disturbed, and how: the names of the points."""

from typing import Literal, TypeAlias

import msgspec

from midstream.core.errors import UserMistake

Kind: TypeAlias = Literal["interrupt", "kill", "both"]
Moment: TypeAlias = Literal["lost", "kept", "flying"]

_KINDS: dict[str, Kind] = {"interrupt": "interrupt", "kill": "kill", "both": "both"}
_MOMENTS: dict[str, Moment] = {"lost": "lost", "kept": "kept", "flying": "flying"}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbance of a rehearsal.

    `seq` is a fact's number. `lost`: what it tells of has happened, and is not kept. `kept`: right
    after it was kept, before anything follows. `flying`: what follows it is under way. `both`: an
    interruption while things are under way, and a kill as soon as the halt waits for something.
    """

    kind: Kind
    seq: int
    moment: Moment = "kept"

    def __str__(self) -> str:
        """Return the point's name, such as `kill:17` or `interrupt:4:flying`."""
        return f"{self.kind}:{self.seq}{'' if self.moment == 'kept' else f':{self.moment}'}"


def point_named(name: str) -> Point:
    """Return the point of a name.

    Raises:
        UserMistake: it is none.
    """
    kind, _, rest = name.partition(":")
    seq, _, moment = rest.partition(":")
    is_number = seq.isascii() and seq.isdigit()
    if kind not in _KINDS or not is_number or (moment or "kept") not in _MOMENTS:
        raise UserMistake(
            f"{name!r} names no point.", hint="One is kill:17, kill:17:lost or interrupt:4:flying."
        )
    return Point(kind=_KINDS[kind], seq=int(seq), moment=_MOMENTS[moment or "kept"])
