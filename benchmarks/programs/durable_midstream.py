"""The loop in midstream, kept in its SQLite store. See `benchmarks.programs.durable`.

It runs in the environment of the benchmarks, where midstream is installed.
"""

import asyncio

from benchmarks.durable_transitions import timed
from benchmarks.programs.durable import asked, tell


def main() -> None:
    """Measure the loop. Its journal mode is its own: WAL, with `synchronous=FULL`."""
    folder, count, _ = asked()
    seconds, grown = asyncio.run(timed(folder / "store.db", count))
    tell(
        "midstream",
        seconds=seconds * count,
        count=count,
        grown=round(grown * count),
        setting="WAL, FULL",
    )


if __name__ == "__main__":
    main()
