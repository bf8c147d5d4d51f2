"""What a person lets this process do: the mode, their rules, and the sandbox there is."""

from collections.abc import Callable

import msgspec

from midstream.language.errors import UserMistake, did_you_mean
from midstream.safety.capability import PermissionMode, SandboxLevel
from midstream.safety.policy import MODES, OWN_FILE, WORKSPACE_FILE, Policy

SWITCHABLE = ("plan", "ask", "auto")
"""The modes a command may go to. `full` takes a flag and a typed word at the start."""


class Permissions:
    """The policy of the moment, as `ToolManager` asks for it at each call.

    Only a person changes it: by a command, by their settings. No tool can reach it.

    Args:
        rules: the policy of the settings; its mode is the one to begin with.
        sandbox: the level measured, None before that, which is judged as none; called at each verdict,
            it returns at once.
    """

    def __init__(
        self,
        rules: Policy | None = None,
        *,
        sandbox: Callable[[], SandboxLevel | None] | None = None,
    ) -> None:
        self._rules = rules or Policy()
        self._sandbox = sandbox

    @property
    def mode(self) -> PermissionMode:
        """Return how much happens unasked now."""
        return self._rules.mode

    @property
    def sandbox(self) -> SandboxLevel | None:
        """Return what commands run in, None while that is being measured."""
        return self._rules.sandbox if self._sandbox is None else self._sandbox()

    def switch(self, mode: str) -> None:
        """Let more, or less, happen unasked from now on. Calls that run already go on.

        Raises:
            UserMistake: it is no mode a command may go to.
        """
        if self._rules.is_untrusted:
            raise UserMistake(
                "This workspace is not trusted: only its files are read.",
                hint="Look at it and trust it with: midstream trust",
            )
        for known in MODES:
            if known == mode and known in SWITCHABLE:
                self._rules = msgspec.structs.replace(self._rules, mode=known)
                return
        if mode == "full":
            hint = "Start midstream with --permission-mode full; you will be asked to type a word."
            raise UserMistake("You cannot switch to full while midstream runs.", hint=hint)
        raise UserMistake(
            f"There is no permission mode {mode!r}.",
            hint=did_you_mean(mode, SWITCHABLE),
        )

    @property
    def is_untrusted(self) -> bool:
        """Return whether only files are read, since nobody has trusted the workspace."""
        return self._rules.is_untrusted

    def rules(self) -> tuple[tuple[str, str, str], ...]:
        """Return the rules as (allow, ask or deny; the rule; whose it is), in the order they count."""
        rules = self._rules
        return (
            *(("deny", text, OWN_FILE) for text in rules.deny),
            *(("deny", text, WORKSPACE_FILE) for text in rules.narrowing_deny),
            *(("ask", text, OWN_FILE) for text in rules.ask),
            *(("ask", text, WORKSPACE_FILE) for text in rules.narrowing_ask),
            *(("allow", text, OWN_FILE) for text in rules.allow),
        )

    def policy(self) -> Policy:
        """Return what calls are judged by now."""
        if self._sandbox is None:
            return self._rules
        return msgspec.structs.replace(self._rules, sandbox=self._sandbox() or "none")
