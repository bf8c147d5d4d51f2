"""Which models are used: those of the settings, one that stands for all, or the offline model."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial

from midstream.models.api_client import AIAPIClient
from midstream.models.endpoints import (
    ENDPOINTS,
    OFFLINE,
    is_offline,
    name_and_effort,
    provider_of,
    require_key,
    require_name,
    require_name_among,
)
from midstream.models.localhost import NamesHere
from midstream.models.prices import doubts_about, known_names, load, window_of
from midstream.system.offloop import in_thread


class ModelChoice:
    """The models to choose from, and the one chosen, over a client.

    Args:
        client: answers with the model chosen.
        levels: the model of each level, as the settings name them.
        is_offline: none of them can be reached, so the offline model stands for all unless another
            one is chosen.
        remember: hears every choice as (model, level; None: all), so that the settings tell the
            truth about it.
        environ: where keys and endpoints stand; by default the process's environment.
    """

    def __init__(
        self,
        client: AIAPIClient,
        levels: Mapping[str, str],
        *,
        is_offline: bool,
        remember: Callable[[str | None, str | None], None] = lambda _name, _level: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._environ = os.environ if environ is None else environ
        self._levels = dict(levels)
        self._is_offline = is_offline
        self._remember = remember
        self._here = NamesHere(self._environ)
        self.use(None)

    def describe(self) -> str:
        """Return the model of the base level, or the one that stands for all, with its effort."""
        return self._client.describe()["base"]

    def levels(self) -> tuple[tuple[str, str, str], ...]:
        """Return each level, the model that answers it now, and the one the settings name."""
        used = self._client.describe()
        return tuple((level, used[level], name) for level, name in self._levels.items())

    def use(self, name: str | None, level: str | None = None) -> None:
        """Use this model for every level, or for one; None: what the settings name, or offline."""
        if name is not None:
            require_key(require_name(name), self._environ)
        stands_in = name is None and self._is_offline
        self._client.use(OFFLINE if stands_in else name, level)
        self._remember(name, level)

    async def doubts(self, name: str) -> str:
        """Return what speaks against a name that may be right all the same, "" where nothing does.

        Raises:
            UserMistake: no model can be meant by that name, or its provider is not set up.
        """
        require_key(require_name_among(name, self.names()), self._environ)
        name, effort = name_and_effort(name)
        found = await in_thread(partial(doubts_about, name, self._environ))
        known = ENDPOINTS.get(provider_of(name))
        if effort is not None and (is_offline(name) or (known and not known.takes_effort)):
            untold = f"{name} cannot be told how hard to think: {effort} is left out."
            return f"{found}\n{untold}".strip()
        return found

    async def window(self, level: str) -> tuple[str, int | None]:
        """Return the model that answers a level now, and how many tokens it takes."""
        name = self._client.model_for(level)
        return name, await in_thread(partial(window_of, name))

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return the model of each level, and the offline model."""
        return (*self._levels.items(), ("no LLM", OFFLINE))

    def names(self) -> tuple[str, ...]:
        """Return the models found on this machine, then those of the list that have a key."""
        return tuple(dict.fromkeys((*self._here.names, *known_names(self._environ))))

    async def look_here(self) -> None:
        """Ask servers on this machine which models they have, and load the list for `names`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._here.look())
            group.create_task(in_thread(load))
