"""Jobs of procrastinate beside the runs: `setup ADDRESS COUNT`, `worker ADDRESS`, `defer ADDRESS`.

`setup` makes its tables, with so many jobs that are due tomorrow. A worker says `ready`, and for each job
`begun` and the nanoseconds of the machine's monotonic clock; a job whose number is odd never ends. It looks
once a second for jobs whose worker has said nothing for three, and has them tried again. `defer` has one
job for each line of stdin, a number, and says `deferred`.
"""
# mypy: disable-error-code="import-not-found", disallow-untyped-decorators=False

import asyncio
import datetime
import logging
import sys
import time

import procrastinate
from procrastinate import utils

STALLED_S = 3.0


def app_of(address: str) -> tuple[procrastinate.App, procrastinate.tasks.Task]:
    """Return the application and its one task."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address))

    @app.task(name="drive")
    async def drive(number: int) -> None:
        print(f"begun {number} {time.monotonic_ns()}", flush=True)
        if number % 2:
            await asyncio.Event().wait()

    return app, drive


async def retry(app: procrastinate.App) -> None:
    """Have jobs of dead workers tried again, for as long as this is awaited."""
    while True:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_S):
            await app.job_manager.retry_job(job)
        await asyncio.sleep(1)


async def main(role: str, address: str, count: int = 0) -> None:
    """Do what the role says."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app, drive = app_of(address)
    async with app.open_async():
        if role == "setup":
            await app.schema_manager.apply_schema_async()
            tomorrow = utils.utcnow() + datetime.timedelta(days=1)
            for first in range(0, count, 1000):
                jobs = [{"number": number} for number in range(first, min(first + 1000, count))]
                await drive.configure(schedule_at=tomorrow).batch_defer_async(*jobs)
        elif role == "worker":
            retrying = asyncio.create_task(retry(app))
            print("ready", flush=True)
            await app.run_worker_async(
                concurrency=100,
                update_heartbeat_interval=1.0,
                stalled_worker_timeout=STALLED_S,
                shutdown_graceful_timeout=0.1,
            )
            retrying.cancel()
        else:
            print("ready", flush=True)
            deferring: set[asyncio.Task[None]] = set()

            async def defer(number: int) -> None:
                await drive.defer_async(number=number)
                print("deferred", flush=True)

            while line := await asyncio.to_thread(sys.stdin.readline):
                task = asyncio.create_task(defer(int(line)))
                deferring.add(task)
                task.add_done_callback(deferring.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
