"""Runs under way, as everything that shows or steers them has them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.names import Json, Policy
from midstream.language.spec import Definition
from midstream.runtime.ports.workflows import Handlers

Listener: TypeAlias = Callable[[Envelope], None] | Callable[[Envelope], Awaitable[None]]
"""Hears events after they are journaled. One that raises or hangs never harms the run."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a line right after it was taken. The same id gives the same receipt.

    `handling` is `answer`, a policy, or `reject` with the `reason`.
    """

    input_id: str
    handling: str
    reason: str = ""


class Machine(Protocol):
    """A run under way, as faces and commands use it."""

    @property
    def run(self) -> Run:
        """Return the run as it stands."""

    @property
    def is_closed(self) -> bool:
        """Return whether this machine does nothing more: its run has ended, or goes on elsewhere."""

    async def say(
        self,
        text: str,
        *,
        question: str | None = None,
        unasked: bool = False,
        policy: Policy | None = None,
        source: str = "user",
        id: str | None = None,
    ) -> Receipt:
        """Give the run a line of the user; see `WorkflowStateMachine.say`."""

    async def withdraw(self, input_id: str) -> None:
        """Take back words that have not been delivered yet."""

    async def halt(self) -> None:
        """Stop the current turn and hold."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call that waits for approval; see `WorkflowStateMachine.approve`."""

    async def revoke(self, permission: str) -> None:
        """Take back what was granted for the rest of the run."""

    async def compact(self, note: str = "") -> None:
        """Have the older turns summarised; see `WorkflowStateMachine.compact`."""

    async def rename(self, name: str) -> None:
        """Give the run a name; "" takes it away."""

    async def stop(self, reason: str = "stopped by the user") -> None:
        """End the run; returns when it has ended."""

    async def unsuspend(self) -> None:
        """Let a suspended run go on, or one that was halted, where it was cut."""

    async def wait(self) -> Run:
        """Return the run once it has ended."""

    async def settled(self) -> Run:
        """Return the run once it has ended or only a person can move it on."""


class Engine(Protocol):
    """Where runs live. Every event of every run goes to the engine's listeners."""

    async def start(
        self,
        definition: Definition,
        *,
        handlers: Handlers | None = None,
        input: Json = None,
        variables: dict[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
    ) -> Machine:
        """Return a run that has begun."""

    def machines(self) -> tuple[Machine, ...]:
        """Return the runs of this process, the oldest first, ended ones included."""

    def listen(self, listener: Callable[[Envelope], None]) -> None:
        """Let a trusted, quick listener hear every event of every run, on the loop."""

    async def close(self) -> None:
        """Let go of every run: those that have not ended go on in a later process."""
