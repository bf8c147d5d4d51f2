"""The loop in langgraph, kept by langgraph-checkpoint-sqlite. See `benchmarks.programs.durable`.

At its best: the synchronous saver, which needs no second thread, and one connection. `durability="sync"`
keeps a state before the next one begins, which is what the others do.
"""
# mypy: disable-error-code="import-not-found"

import sqlite3
from contextlib import closing
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.programs.durable import (
    asked,
    messages,
    moved_on,
    new_database,
    setting,
    time_loop,
)


class Data(TypedDict):
    """What the run keeps."""

    count: int
    done: int
    messages: list[str]


def work(data: Data) -> dict[str, Any]:
    """Do what each state does: append a message, drop the oldest; in an empty state, nothing."""
    done = data["done"] + 1
    return {"done": done, "messages": moved_on(data["messages"], done)}


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
    wanted = asked()
    path = new_database(wanted.folder, wanted.journal) if wanted.is_durable else None
    with closing(sqlite3.connect(path or ":memory:", check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        loop = graph(SqliteSaver(connection) if wanted.is_durable else None)
        kept = {"durability": "sync"} if wanted.is_durable else {}

        def run(name: str, count: int) -> int:
            config = {"configurable": {"thread_id": name}, "recursion_limit": count + 10}
            begin = {"count": count, "done": 0, "messages": messages(wanted.messages)}
            return int(loop.invoke(begin, config, **kept)["done"])

        time_loop("langgraph", wanted, run, path=path, setting=lambda: setting(connection))


if __name__ == "__main__":
    main()
