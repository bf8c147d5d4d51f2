"""Requests that wait their turn: so many a minute for a model, a provider's key, a person.

Where workers of many machines share a store, they share these, too: the supplies stand there, under the
names of models, variables and people. No key is ever part of a name.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from midstream.models.endpoints import ENDPOINTS, provider_of
from midstream.runtime.ports import Clock
from midstream.runtime.storage import Rate

Admit: TypeAlias = Callable[[Mapping[str, Rate]], Awaitable[float]]
"""Takes one of each supply and returns 0, or takes none and returns the seconds to wait."""

AT_ONCE_S: Final = 10.0
"""A supply holds what comes in so many seconds, and one request at least."""

_LONGEST_S: Final = 5.0
"""When to ask again at the latest: others may have taken what was waited for, or given up."""


class RateLimits:
    """Lets requests go out at the rates that were set.

    Args:
        rates: requests a minute by model (`openai:gpt-5`), by variable of a key (`$OPENAI_API_KEY`),
            and for each person (`user`).
        admit: where the supplies are.
        person: says for whom a run is.
        clock: what is waited by.
        environ: which of a provider's keys is used.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        admit: Admit,
        *,
        person: Callable[[str], Awaitable[str]],
        clock: Clock,
        environ: Mapping[str, str],
    ) -> None:
        self._rates = rates
        self._admit = admit
        self._person = person
        self._clock = clock
        self._environ = environ

    async def turn(self, model: str, run: str, tell: Callable[[str], None]) -> None:
        """Return once a run's request to a model may go out. While it waits, `tell` hears why and how long.

        Cancelled, nothing was taken. Raises WorldTrouble where the supplies cannot be reached.
        """
        supplies = await self._supplies(model, run)
        if not supplies:
            return
        is_told = False
        while (wait_s := await self._admit(supplies)) > 0:
            tell(f"{model}: waits its turn, about {max(wait_s, 1):.0f} s ({', '.join(supplies)})")
            is_told = True
            await self._clock.sleep(min(wait_s, _LONGEST_S))
        if is_told:
            tell(f"{model}: it is its turn")

    async def _supplies(self, model: str, run: str) -> dict[str, Rate]:
        known = ENDPOINTS.get(provider_of(model))
        keys = () if known is None else known.keys
        key = next((f"${name}" for name in keys if self._environ.get(name, "").strip()), "")
        found = {name: self._rates[name] for name in (model, key) if name in self._rates}
        if "user" in self._rates:
            found[f"user {await self._person(run)}"] = self._rates["user"]
        return {
            name: Rate(per_minute=rate, burst=max(1.0, rate * AT_ONCE_S / 60))
            for name, rate in found.items()
        }
