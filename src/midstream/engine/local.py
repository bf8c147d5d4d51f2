"""Runs as tasks in this process, over one journal."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from midstream.core.errors import UserMistake
from midstream.core.names import Json
from midstream.core.notices import Envelope
from midstream.core.spec import Definition
from midstream.ports import Handlers, World
from midstream.workflow.state_machine import WorkflowStateMachine


class LocalEngine:
    """Starts runs and keeps them until the process ends. See the port `Engine`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._machines: list[WorkflowStateMachine] = []
        self._listeners: list[Callable[[Envelope], None]] = []

    async def start(
        self,
        definition: Definition,
        *,
        handlers: Handlers | None = None,
        input: Json = None,
        variables: dict[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
    ) -> WorkflowStateMachine:
        """Return a run that has begun; its start is journaled."""
        machine = WorkflowStateMachine(definition, self.world, handlers=handlers, tap=self._tap)
        self._machines.append(machine)
        try:
            await machine.start(input, variables=variables, allowed=allowed, approvals=approvals)
        except UserMistake:
            self._machines.remove(machine)  # it has not begun, and never will
            raise
        return machine

    def machines(self) -> tuple[WorkflowStateMachine, ...]:
        """Return the runs of this process, the oldest first, ended ones included."""
        return tuple(self._machines)

    def listen(self, listener: Callable[[Envelope], None]) -> None:
        """Let a trusted, quick listener hear every event of every run, on the loop."""
        self._listeners.append(listener)

    async def close(self) -> None:
        """Stop every run that has not ended; returns when all have, and are left by their effects."""
        async with asyncio.TaskGroup() as group:
            for machine in self._machines:
                group.create_task(machine.stop("the console was closed"))

    def _tap(self, envelope: Envelope) -> None:
        """Tell every listener; one that raises keeps no other from hearing."""
        failures: list[Exception] = []
        for listener in tuple(self._listeners):
            try:
                listener(envelope)
            except Exception as error:
                failures.append(error)
        if failures:
            # The machine says so, in a notice of its own.
            raise failures[0]
