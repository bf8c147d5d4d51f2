"""The loop in DBOS on SQLite: one workflow, a step for each state. See `benchmarks.programs.durable`."""
# mypy: disable-error-code="import-not-found", disallow-untyped-decorators=False

from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.programs.durable import asked, message, new_database, setting, time_loop

settings: set[str] = set()


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def keep_safe(connection: Any, record: object) -> None:
    """Let every connection DBOS opens wait for the disk."""
    connection.execute("PRAGMA synchronous=FULL")
    settings.add(setting(connection))


@DBOS.step()
def first(done: int) -> str:
    """Work, then go to the second."""
    return message(done)


@DBOS.step()
def second(done: int) -> str:
    """Work, then go to the third."""
    return message(done)


@DBOS.step()
def third(done: int) -> str:
    """Work, then go to the first."""
    return message(done)


@DBOS.workflow()
def loop(count: int) -> int:
    """Go through the states, so often."""
    states = (first, second, third)
    done = 0
    while done < count:
        states[done % 3](done)
        done += 1
    return done


def main() -> None:
    """Measure the loop."""
    wanted = asked()
    path = new_database(wanted.folder, wanted.journal)
    config: DBOSConfig = {
        "name": "loop",
        "system_database_url": f"sqlite:///{path}",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()

    def run(name: str, count: int) -> int:
        with SetWorkflowID(name):
            return int(loop(count))

    time_loop("dbos", wanted, run, path=path, setting=lambda: " / ".join(sorted(settings)))
    DBOS.destroy()


if __name__ == "__main__":
    main()
