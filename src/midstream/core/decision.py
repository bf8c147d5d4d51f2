"""What a person decides of a tool call that waits for approval."""

import msgspec

from midstream.language.names import Json


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A yes or a no to a tool call.

    `for_run`: with a yes, what it asked for needs no further approval in this run. `note` are words for
    the model, with a no. `edited` are arguments the call is made with in place of its own, those left
    out stay as they are: writing them was the yes to them.
    """

    granted: bool
    for_run: bool = False
    note: str = ""
    edited: dict[str, Json] | None = None
