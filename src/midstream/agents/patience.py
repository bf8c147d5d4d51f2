"""How long external agents are waited for."""

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent is waited for, in seconds: to begin, while it is silent, while it is silent and a
    call of its own is under way, and to end a turn that is to be stopped.
    """

    start_s: float = 90.0
    idle_s: float = 300.0
    working_s: float = 3_600.0
    cancel_s: float = 3.0
