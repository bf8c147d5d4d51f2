"""What clients of runs did and were told, compared with the journals: the core folds these, as the model.

Several processes answer, approve, say, halt and stop. Each writes a line before it begins something and
another once it knows what came of it; they are killed, and some cut off from the database, while they wait.

* done: what was said is in the journal once, and what the receipt says is what the journal says; words that
  were only kept may have come after the end of the run;
* failed: it is not there;
* unknown, since the client was killed or the database away: it is there at most once;
* a client's words that are done are in the journal in the order in which it said them;
* no question is answered twice, and nobody else was told that his words were its answer.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from midstream.core.events import (
    AnswerRefused,
    InputReceived,
    QuestionAnswered,
    RunFailed,
    RunFinished,
    RunStopped,
)
from midstream.core.notices import Envelope
from midstream.core.run import InputRecord
from midstream.language.errors import AuthorMistake, MidstreamError, UserMistake
from midstream.runtime.engine.remote import NOBODY, SERVED
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    from midstream.api.run_handle import RunHandle

Deed = Literal["say", "queue", "answer", "approve", "halt", "stop"]
KEPT: Final = (NOBODY, SERVED)


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Something a client did with a run. `handling` and `reason` are those of its receipt."""

    id: str
    client: str
    run: str
    deed: Deed
    question: str = ""
    outcome: Literal["done", "failed", "unknown"] = "unknown"
    handling: str = ""
    reason: str = ""


# --- a client ------------------------------------------------------------------------------------


async def _converse(client: str, runs: Path) -> None:
    """Do one thing after another with the runs that the file names, for ever."""
    import midstream

    chance, numbers = random.Random(client), count()
    while True:
        with suppress(MidstreamError):
            async with midstream.open(Path.cwd()) as engine:
                handles: dict[str, RunHandle] = {}
                while True:
                    await asyncio.sleep(chance.uniform(0.0, 0.3))
                    text = await in_thread(partial(runs.read_text, "utf-8"))
                    if not (ids := text.split()):
                        continue
                    id = chance.choice(ids)
                    if id not in handles:
                        handles[id] = await engine.get(id)
                    if handles[id].status not in ("finished", "failed", "stopped"):
                        await _do_one(handles[id], client, f"{client}-{next(numbers)}", chance)


async def _do_one(handle: "RunHandle", client: str, id: str, chance: random.Random) -> None:
    asked = chance.choice(handle.questions) if handle.questions else None
    deed: Deed = chance.choice(("say", "say", "queue", "halt"))
    if chance.random() < 0.01:
        deed = "stop"
    elif asked is not None:
        deed = "approve" if asked.kind == "approval" else "answer"
    done = Done(id=id, client=client, run=handle.id, deed=deed)
    if asked is not None and deed in ("approve", "answer"):
        done = msgspec.structs.replace(done, question=asked.id)
    print(msgspec.json.encode(done).decode(), flush=True)
    try:
        receipt: Any = None
        match deed:
            case "say":
                receipt = await handle.say(f"{id} go on", id=id, unasked=True)
            case "queue":
                receipt = await handle.say(f"{id} and then", id=id, policy="queue")
            case "answer":
                assert asked is not None
                text = asked.choices[0] if asked.choices else f"{id} yes"
                receipt = await handle.answer(asked, text, id=id)
            case "approve":
                await handle.approve(done.question)
            case "halt":
                await handle.halt()
            case "stop":
                await handle.stop()
    except (UserMistake, AuthorMistake):
        # A stop is kept even where nobody could be told of it.
        done = msgspec.structs.replace(done, outcome="unknown" if deed == "stop" else "failed")
    except MidstreamError:
        return
    else:
        done = msgspec.structs.replace(done, outcome="done")
        if receipt is not None:
            done = msgspec.structs.replace(done, handling=receipt.handling, reason=receipt.reason)
    print(msgspec.json.encode(done).decode(), flush=True)


class Clients:
    """The client processes of a storm, which are killed now and then.

    Args:
        home: where they are, beside the folder `work`.
        environment: returns that of a program; every second one `is_cuttable` off from the database.
        number: how many there are at a time.
    """

    def __init__(self, home: Path, environment: Callable[..., dict[str, str]], number: int) -> None:
        self._home = home
        self._environment = environment
        self._folder = home / "clients"
        self._folder.mkdir()
        self._runs = home / "runs"
        self._runs.touch()
        self._number = number
        self._names = count()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def know(self, ids: Sequence[str]) -> None:
        """Tell them of the runs there are."""
        whole = self._runs.with_suffix(".new")
        whole.write_text("\n".join(ids), "utf-8")
        whole.replace(self._runs)

    async def storm(self, chance: random.Random) -> None:
        """Keep so many of them at it; kill one every few seconds."""
        try:
            while True:
                while len(self._processes) < self._number:
                    self._begin()
                await asyncio.sleep(chance.uniform(1.0, 8.0))
                if self._processes:
                    victim = self._processes.pop(0)
                    victim.kill()
                    await asyncio.to_thread(victim.wait)
                    self.killed += 1
        finally:
            self.close()

    def _begin(self) -> None:
        number = next(self._names)
        environment = self._environment(is_cuttable=number % 2 == 1)
        paths = os.pathsep.join(str(path) for path in (Path(__file__).parents[1],))
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "torture.histories", f"client{number}", str(self._runs)],
                cwd=self._home / "work",
                env=environment | {"PYTHONPATH": paths},
                stdout=(self._folder / f"client{number}").open("wb"),
                stderr=(self._home / f"worker-client{number}.err").open("wb"),
            )
        )

    def close(self) -> None:
        """Kill whoever is left."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def history(self) -> dict[str, list[Done]]:
        """Return what was done with each run, in the order of each client."""
        found: dict[str, list[Done]] = {}
        for file in sorted(self._folder.iterdir()):
            last: dict[str, Done] = {}
            for line in file.read_bytes().splitlines():
                with suppress(msgspec.MsgspecError):  # the line at which it was killed
                    done = msgspec.json.decode(line, type=Done)
                    last[done.id] = done
            for done in last.values():
                found.setdefault(done.run, []).append(done)
        return found


# --- the judge -----------------------------------------------------------------------------------


def wrong_in_history(
    history: Sequence[Done], facts: Sequence[Envelope], lines: Mapping[str, InputRecord]
) -> Iterator[str]:
    """Yield what clients were told of a run that has ended and is not so.

    Args:
        history: what they did with it, in the order of each.
        facts: all of the run.
        lines: its inbox, as the core folds it.
    """
    heard: dict[str, list[int]] = {}
    answered: Counter[str] = Counter()
    refused: set[str] = set()
    ends = 0
    for fact in facts:
        match fact.event:
            case InputReceived(input_id=id):
                heard.setdefault(id, []).append(fact.seq or 0)
            case QuestionAnswered(question_id=question):
                answered[question] += 1
            case AnswerRefused(input_id=id):
                refused.add(id)
            case RunFinished() | RunFailed() | RunStopped():
                ends += 1
    if ends != 1:
        yield f"it has ended {ends} times"
    yield from (f"{question} was answered {n} times" for question, n in answered.items() if n > 1)
    told: Counter[str] = Counter()
    for done in history:
        times = len(heard.get(done.id, ()))
        if done.deed not in ("say", "queue", "answer"):
            continue
        if times > 1:
            yield f"{done.id} was heard {times} times"
        elif done.outcome == "failed" and times:
            yield f"{done.id} failed and was heard"
        elif done.outcome != "done":
            continue
        elif not times and done.handling != "reject" and done.reason not in KEPT:
            yield f"{done.id} is lost"
        elif times and done.reason not in KEPT and done.handling not in _handled(lines[done.id]):
            yield f"{done.id} is {lines[done.id].handling}, and was called {done.handling}"
        if done.handling == "answer" and done.reason not in KEPT and done.id not in refused:
            told[done.question] += bool(done.question)
    yield from (f"{question} has {n} answers by receipts" for question, n in told.items() if n > 1)
    for client in {done.client for done in history}:
        said = [done for done in history if done.client == client and done.outcome == "done"]
        for one, other in pairwise([done for done in said if done.id in heard]):
            if heard[one.id][0] > heard[other.id][0]:
                yield f"{other.id} was heard before {one.id}"


def _handled(line: InputRecord) -> tuple[str, ...]:
    """Return what a receipt may call a line: one that was taken may have been refused by then."""
    return (line.handling, "reject") if line.disposition == "rejected" else (line.handling,)


if __name__ == "__main__":
    asyncio.run(_converse(sys.argv[1], Path(sys.argv[2])))
