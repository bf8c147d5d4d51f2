"""The loop in midstream, kept in its SQLite store. See `benchmarks.programs.durable`.

It runs in the environment of the benchmarks, where midstream is installed.
"""

import asyncio

from benchmarks.durable_transitions import timed
from benchmarks.programs.durable import WARM_UP, asked, tell
from benchmarks.transitions import ours


def main() -> None:
    """Measure the loop. Its journal mode is its own: WAL, with `synchronous=FULL`."""
    wanted = asked()
    if wanted.is_durable:
        path = wanted.folder / "store.db"
        seconds, grown = asyncio.run(timed(path, wanted.count, messages=wanted.messages))
    else:
        asyncio.run(ours(WARM_UP, wanted.messages))
        seconds, grown = asyncio.run(ours(wanted.count, wanted.messages)), 0.0
    tell(
        "midstream",
        seconds=seconds * wanted.count,
        count=wanted.count,
        grown=round(grown * wanted.count),
        setting="WAL, FULL" if wanted.is_durable else "",
    )


if __name__ == "__main__":
    main()
