"""The loop in Apache Burr, kept by its `SQLitePersister`. See `benchmarks.programs.durable`.

At its best: the synchronous persister; the asynchronous one hands every statement to a thread.
"""
# mypy: disable-error-code="import-not-found", disallow-untyped-decorators=False

from time import perf_counter
from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister

from benchmarks.programs.durable import (
    WARM_UP,
    asked,
    message,
    new_database,
    setting,
    size,
    tell,
)


def work(state: Any) -> Any:
    """Do what each state does: carry its message."""
    done = state["done"] + 1
    return state.update(done=done, message=message(done))


@action(reads=["done"], writes=["done", "message"])
def first(state: State) -> State:
    """Work, then go to the second."""
    return work(state)


@action(reads=["done"], writes=["done", "message"])
def second(state: State) -> State:
    """Work, then go to the third."""
    return work(state)


@action(reads=["done"], writes=["done", "message"])
def third(state: State) -> State:
    """Work, then go to the first."""
    return work(state)


def application(persister: Any, name: str) -> Any:
    """Return the loop, about to begin."""
    return (
        ApplicationBuilder()
        .with_actions(first, second, third)
        .with_transitions(("first", "second"), ("second", "third"), ("third", "first"))
        .with_state(done=0, message="")
        .with_entrypoint("first")
        .with_identifiers(app_id=name)
        .with_state_persister(persister)
        .build()
    )


def main() -> None:
    """Measure the loop."""
    folder, count, journal = asked()
    path = new_database(folder, journal)
    persister = SQLitePersister.from_values(db_path=str(path))
    persister.connection.execute("PRAGMA synchronous=FULL")
    persister.initialize()

    def run(loop: Any, count: int) -> int:
        for _ in range(count):
            loop.step()
        return int(loop.state["done"])

    run(application(persister, "warm"), WARM_UP)
    loop = application(persister, "timed")
    before = size(path)
    began = perf_counter()
    done = run(loop, count)
    took = perf_counter() - began
    tell(
        "apache-burr",
        seconds=took,
        count=done,
        grown=size(path) - before,
        setting=setting(persister.connection),
    )
    persister.cleanup()


if __name__ == "__main__":
    main()
