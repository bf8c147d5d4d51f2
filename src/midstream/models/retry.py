"""When to try a model request again, and after how long.

Only failures that may pass by themselves are tried again (too many requests, a server in trouble, no
connection), and only while nothing of the reply has been heard: nothing is ever said twice.
"""

import msgspec


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How patient to be, in seconds. `attempts` counts the first one.

    A provider that asks for more than `longest_s` of patience is told no: the request fails at once
    and says how long the wait would have been.
    """

    attempts: int = 5
    first_s: float = 0.5
    factor: float = 2.0
    ceiling_s: float = 20.0
    longest_s: float = 60.0

    def wait_s(self, attempt: int, *, retry_after_s: float | None, chance: float) -> float | None:
        """Return how long to wait after the failed `attempt` (from 1), None to give up.

        `chance` (0 to 1) spreads many waiting clients over half of the wait, so that they do not all
        come back in one moment. What the provider asks for is a lower bound, spread upwards.
        """
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None and retry_after_s > self.longest_s:
            return None
        wait = min(self.ceiling_s, self.first_s * self.factor ** (attempt - 1))
        if retry_after_s is not None and retry_after_s > 0:
            return retry_after_s + wait * chance / 2
        return wait * (0.5 + chance / 2)
