"""Which models are used: those of the settings, one that stands for all, or the offline model."""

import os
from collections.abc import Callable, Mapping

from midstream.ai.api_client import AIAPIClient
from midstream.ai.naming import OFFLINE, checked, require_key


class ModelChoice:
    """The `Models` port over a client.

    Args:
        client: answers with the model chosen.
        levels: the model of each level, as the settings name them.
        is_offline: none of them can be reached, so the offline model stands for all unless another
            one is chosen.
        remember: hears every choice, so that the settings tell the truth about it.
        environ: where keys and endpoints stand; by default the process's environment.
    """

    def __init__(
        self,
        client: AIAPIClient,
        levels: Mapping[str, str],
        *,
        is_offline: bool,
        remember: Callable[[str | None], None] = lambda _name: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._environ = os.environ if environ is None else environ
        self._levels = dict(levels)
        self._is_offline = is_offline
        self._remember = remember
        self.use(None)

    def describe(self) -> str:
        """Return the model of the base level, or the one that stands for all."""
        return self._client.describe()["base"]

    def use(self, name: str | None) -> None:
        """Use this model for every level; None: what the settings name, or offline."""
        if name is not None:
            require_key(checked(name), self._environ)
        self._client.use(OFFLINE if name is None and self._is_offline else name)
        self._remember(name)

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return the model of each level, and the offline model."""
        return (*self._levels.items(), ("no LLM", OFFLINE))
