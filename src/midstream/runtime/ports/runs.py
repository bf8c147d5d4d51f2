"""The runs and chats of a workspace, as `/commands` use them."""

from typing import Literal, Protocol, TypeAlias

from midstream.core.run import Run
from midstream.views.spending import Spent

Choice: TypeAlias = Literal["", "old", "new", "stop"]
"""What a kept run follows whose workflow has changed since: its old copy, the new one, neither (it
ends). "": nobody has chosen yet.
"""


class RunsOperator(Protocol):
    """The runs of a workspace as `/commands` use them, wherever they live.

    `run` is the beginning of an id, in any case. What cannot be done raises UserMistake, unchanged.
    """

    def names(self) -> list[tuple[str, str]]:
        """Return the (id, description) pairs of the runs known now, those of this console first."""

    async def lines(self) -> list[str]:
        """Return where every run stands, a line each, the active one marked."""

    async def ended(self) -> Run | None:
        """Return the workflow that ended last as it then stood, None: none has, as far as is kept."""

    async def resume(self, run: str, choice: Choice = "") -> None:
        """Go on with a run nobody runs, or that is suspended, and make it the active one.

        An empty `run` is the only one that can be meant.
        """

    async def attach(self, run: str) -> None:
        """Make a run the active one: one of this console, or of another process."""

    async def detach(self) -> None:
        """Let lines go to the role again; the active run goes on."""

    async def send(self, run: str, text: str) -> None:
        """Give any run a line: the answer to its only question, else unasked words."""

    async def answer(self, run: str, text: str) -> None:
        """Answer what a run asks, the active one if `run` is empty; `#2 TEXT` names the question."""

    async def spent(self, *, since: float) -> list[Spent]:
        """Return what all runs of the workspace used since a time, and those of this console ever.

        Each request is in it once, however many forks began with it.
        """


class SessionsOperator(Protocol):
    """The chats of a workspace as `/commands` use them. What cannot be done raises UserMistake."""

    async def lines(self) -> list[str]:
        """Return the chats of the workspace, the newest first, numbered from 1, the active one marked."""

    def names(self) -> list[tuple[str, str]]:
        """Return (name or number, description) pairs of the chats listed last, ids before that."""

    async def is_name(self, text: str) -> bool:
        """Return whether a run of the workspace is called so."""

    async def go(self, which: str, choice: Choice = "") -> None:
        """Go on with a chat: by its number in the list, its name, or the beginning of its id."""

    async def rename(self, name: str) -> None:
        """Give the active run a name; "" takes it away."""

    async def compact(self, note: str) -> None:
        """Have the older turns of the active run summarised; returns when that has begun."""
