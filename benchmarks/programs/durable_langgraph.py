"""The loop in langgraph, kept by langgraph-checkpoint-sqlite. See `benchmarks.programs.durable`.

At its best: the synchronous saver, which needs no second thread, and one connection. `durability="sync"`
keeps a state before the next one begins, which is what the others do.
"""
# mypy: disable-error-code="import-not-found"

import sqlite3
from contextlib import closing
from time import perf_counter
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.programs.durable import (
    WARM_UP,
    asked,
    message,
    new_database,
    setting,
    size,
    tell,
)


class Data(TypedDict):
    """What the run keeps."""

    count: int
    done: int
    message: str


def work(data: Data) -> dict[str, Any]:
    """Do what each state does: carry its message."""
    done = data["done"] + 1
    return {"done": done, "message": message(done)}


def graph(saver: Any) -> Any:
    """Return the loop."""
    building: Any = StateGraph(Data)
    for name in ("first", "second", "third"):
        building.add_node(name, work)
    building.add_edge(START, "first")
    building.add_edge("first", "second")
    building.add_edge("second", "third")
    building.add_conditional_edges(
        "third", lambda data: END if data["done"] >= data["count"] else "first", ["first", END]
    )
    return building.compile(checkpointer=saver)


def main() -> None:
    """Measure the loop."""
    folder, count, journal = asked()
    path = new_database(folder, journal)
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        loop = graph(SqliteSaver(connection))

        def run(name: str, count: int) -> int:
            config = {"configurable": {"thread_id": name}, "recursion_limit": count + 10}
            begin = {"count": count, "done": 0, "message": ""}
            return int(loop.invoke(begin, config, durability="sync")["done"])

        run("warm", WARM_UP)
        before = size(path)
        began = perf_counter()
        done = run("timed", count)
        took = perf_counter() - began
        tell(
            "langgraph",
            seconds=took,
            count=done,
            grown=size(path) - before,
            setting=setting(connection),
        )


if __name__ == "__main__":
    main()
