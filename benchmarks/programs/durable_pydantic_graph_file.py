"""The loop in pydantic-graph 1, kept by its `FileStatePersistence`. See `benchmarks.programs.durable`.

Its one durable store: a JSON file, read and written anew several times a node, so that a transition costs
more the longer the run is. It never waits for the disk.
"""
# mypy: ignore-errors
# The types of version 1: the development's environment has version 2.

import asyncio
from pathlib import Path

from pydantic_graph import Graph
from pydantic_graph.persistence.file import FileStatePersistence

from benchmarks.programs.durable import WARM_UP, asked, messages, tell
from benchmarks.programs.pydantic_graph_nodes import Data, First, Second, Third


async def run(path: Path | None, count: int, kept: int) -> int:
    """Run the loop, so many transitions, and return how many there were."""
    loop = Graph(nodes=(First, Second, Third))
    data = Data(count, messages=messages(kept))
    keeping = None if path is None else FileStatePersistence(json_file=path)
    await loop.run(First(), state=data, persistence=keeping)
    return data.done


def main() -> None:
    """Measure the loop."""
    wanted = asked()
    warm, path = wanted.folder / "warm.json", wanted.folder / "timed.json"
    if not wanted.is_durable:
        warm = path = None
    asyncio.run(run(warm, WARM_UP, wanted.messages))
    began = wanted.clock()
    done = asyncio.run(run(path, wanted.count, wanted.messages))
    took = wanted.clock() - began
    tell(
        "pydantic-graph",
        seconds=took,
        count=done,
        grown=path.stat().st_size if path else 0,
        setting="JSON file, no fsync" if path else "",
    )


if __name__ == "__main__":
    main()
