"""The loop in pydantic-graph, which keeps nothing since its version 2. See `benchmarks.programs.durable`.

So what a user would write by hand stands here: the state and the next node, as JSON in a row of a table,
committed before the node runs.
"""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic_graph import EndMarker, GraphBuilder

from benchmarks.programs.durable import Asked, asked, messages, new_database, setting, time_loop
from benchmarks.programs.pydantic_graph_nodes import Data, First, Second, Third


def graph() -> Any:
    """Return the loop."""
    building: Any = GraphBuilder(state_type=Data, input_type=First, output_type=int)
    building.add(
        building.node(First),
        building.node(Second),
        building.node(Third),
        building.edge_from(building.start_node).to(First),
    )
    return building.build()


async def run(
    loop: Any, connection: sqlite3.Connection | None, name: str, count: int, kept: int
) -> int:
    """Run the loop, so many transitions, each kept before the next where there is a connection."""
    data = Data(count, messages=messages(kept))
    if connection is None:
        await loop.run(state=data, inputs=First())
        return data.done
    async with loop.iter(state=data, inputs=First()) as steps:
        async for tasks in steps:
            if data.done == 0:  # where it begins is no transition
                continue
            is_over = isinstance(tasks, EndMarker)
            following = "end" if is_over else str(tasks[0].node_id)
            row = (name, data.done, following, json.dumps(asdict(data)))
            connection.execute("INSERT INTO kept VALUES (?, ?, ?, ?)", row)
            connection.commit()
    return data.done


def measured(wanted: Asked, path: Path | None, connection: sqlite3.Connection | None) -> None:
    """Measure the loop, and tell."""
    loop = graph()

    def go(name: str, count: int) -> int:
        done = asyncio.run(run(loop, connection, name, count, wanted.messages))
        if connection is not None:
            query = "SELECT count(*) FROM kept WHERE run = ?"
            rows = connection.execute(query, (name,)).fetchone()[0]
            assert rows == done, f"{rows} rows for {done} transitions"
        return done

    time_loop(
        "pydantic-graph",
        wanted,
        go,
        path=path,
        setting=lambda: "" if connection is None else setting(connection),
    )


def main() -> None:
    """Measure the loop."""
    wanted = asked()
    if not wanted.is_durable:
        measured(wanted, None, None)
        return
    path = new_database(wanted.folder, wanted.journal)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE kept (run, seq, node, state, PRIMARY KEY (run, seq))")
        measured(wanted, path, connection)


if __name__ == "__main__":
    main()
