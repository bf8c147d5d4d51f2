"""The loop in Apache Burr, kept by its `SQLitePersister`. See `benchmarks.programs.durable`.

At its best: the synchronous persister; the asynchronous one hands every statement to a thread.
"""
# mypy: disable-error-code="import-not-found", disallow-untyped-decorators=False

from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister

from benchmarks.programs.durable import (
    asked,
    messages,
    moved_on,
    new_database,
    setting,
    time_loop,
)


def work(state: Any) -> Any:
    """Do what each state does: append a message, drop the oldest; in an empty state, nothing."""
    done = state["done"] + 1
    return state.update(done=done, messages=moved_on(state["messages"], done))


@action(reads=["done", "messages"], writes=["done", "messages"])
def first(state: State) -> State:
    """Work, then go to the second."""
    return work(state)


@action(reads=["done", "messages"], writes=["done", "messages"])
def second(state: State) -> State:
    """Work, then go to the third."""
    return work(state)


@action(reads=["done", "messages"], writes=["done", "messages"])
def third(state: State) -> State:
    """Work, then go to the first."""
    return work(state)


def application(persister: Any, name: str, count: int) -> Any:
    """Return the loop, about to begin with so many messages."""
    building: Any = (
        ApplicationBuilder()
        .with_actions(first, second, third)
        .with_transitions(("first", "second"), ("second", "third"), ("third", "first"))
        .with_state(done=0, messages=messages(count))
        .with_entrypoint("first")
        .with_identifiers(app_id=name)
    )
    return (building if persister is None else building.with_state_persister(persister)).build()


def main() -> None:
    """Measure the loop."""
    wanted = asked()
    path: Path | None = None
    persister: Any = None
    if wanted.is_durable:
        path = new_database(wanted.folder, wanted.journal)
        persister = SQLitePersister.from_values(db_path=str(path))
        persister.connection.execute("PRAGMA synchronous=FULL")
        persister.initialize()

    loops = {name: application(persister, name, wanted.messages) for name in ("warm", "timed")}

    def run(name: str, count: int) -> int:
        loop = loops[name]
        for _ in range(count):
            loop.step()
        return int(loop.state["done"])

    time_loop("apache-burr", wanted, run, path=path, setting=lambda: setting(persister.connection))
    if persister is not None:
        persister.cleanup()


if __name__ == "__main__":
    main()
