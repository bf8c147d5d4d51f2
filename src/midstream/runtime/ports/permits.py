"""What may happen unasked."""

from typing import Protocol

from midstream.safety.capability import PermissionMode, SandboxLevel


class Permits(Protocol):
    """What may happen unasked in this process."""

    @property
    def mode(self) -> PermissionMode:
        """Return how much happens unasked now."""

    @property
    def sandbox(self) -> SandboxLevel | None:
        """Return what commands run in, None while that is being measured."""

    @property
    def is_untrusted(self) -> bool:
        """Return whether only files are read, since nobody has trusted the workspace."""

    def switch(self, mode: str) -> None:
        """Let more, or less, happen unasked from now on.

        Raises:
            UserMistake: it is no mode a command may go to.
        """

    def rules(self) -> tuple[tuple[str, str, str], ...]:
        """Return the rules as (allow, ask or deny; the rule; whose it is), in the order they count."""
