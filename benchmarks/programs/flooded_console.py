"""ConsoleInterface over a desk that floods it with events: `flooded_console.py FOLDER KIND RATE`.

`KIND` is `tokens` (twenty agents stream words, with a fact now and then) or `lines` (every event
prints a line), or how many agents stream words and nothing else, each with a line that says it is at
work. `RATE` is in events a second, 0 for none. How many came a second stands in FOLDER/rate.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from midstream.app.ui import Console, OwnCommandEnded, Status, Submitted
from midstream.core.events import AgentResponded, AnyFact, ToolCalled, ToolReturned, WorkflowOutput
from midstream.core.notices import AnyNotice, Envelope, TextDelta
from midstream.core.question import Decision, Question
from midstream.core.routing import Destination, Route
from midstream.language.names import Policy
from midstream.system.own_process import favour_the_loop, settle_memory
from midstream.tui.interface import ConsoleInterface
from midstream.views.lanes import Lane
from midstream.views.run_status import Waiting
from midstream.views.turns import Turn

TICK_S = 0.005


class QuietDesk:
    """Takes every line and does nothing with it. See the port `Console`."""

    def status(self) -> Status:
        """Return a status with most of its parts."""
        return Status(
            mode="workflow:x", enter="interrupts", state="start", thinking="ada", busy=True
        )

    def status_fields(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def open_questions(self) -> tuple[Question, ...]:
        """Return none."""
        return ()

    def route(
        self,
        line: str,
        *,
        seen: Collection[str],
        focused: str = "",
        answers: str = "",
        is_new: bool = False,
    ) -> Route | None:
        """Have every line for a run that has not begun."""
        return Destination(text=line)

    def interrupts(self, to: Destination) -> bool:
        """Have nothing to cut off."""
        return False

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Take the words."""
        return Submitted(kind="taken")

    async def submit(self, line: str, *, seen: Collection[str]) -> Submitted:
        """Take a line."""
        return Submitted(kind="taken")

    async def answered(self) -> None:
        """Have every reply whole at once."""

    async def halt(self) -> None:
        """Do nothing."""

    async def go_on(self) -> None:
        """Have nothing that was stopped."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Do nothing."""

    def next_permission_mode(self) -> str:
        """Change nothing."""
        return "ask"

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return none."""
        return ()

    async def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give none."""
        yield ()

    async def picture(self, pasted: str) -> str:
        """Keep none."""
        return ""

    async def clipboard(self) -> str:
        """Hold a word."""
        return "clipped"

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run nothing."""
        return OwnCommandEnded(words="", lines=0, text="")

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return none."""
        return ()

    async def turns(self) -> tuple[Turn, ...]:
        """Return none."""
        return ()

    async def go_back(self, turn: Turn) -> None:
        """Go nowhere."""

    async def take_back(self) -> str | None:
        """Return none."""
        return None


class BusyDesk(QuietDesk):
    """A desk with so many agents at work, each in a run of its own."""

    def __init__(self, agents: int) -> None:
        self._lanes = tuple(
            Lane(run=f"run{n:02}", path="", state="start", doing="is writing", agent="ada")
            for n in range(agents)
        )

    def status(self) -> Status:
        """Return a status that has all of them at work."""
        return replace(super().status(), lanes=self._lanes, run="run00")


def tokens() -> Iterator[tuple[str, AnyFact | AnyNotice]]:
    """Yield what twenty runs tell while they stream, each in turn ending a reply and calling a tool."""
    for number in itertools.count():
        run = f"run{number // 200 % 20:02}"
        if number % 200 == 199:
            yield run, AgentResponded(agent="ada", text="a reply in a few words, now complete")
        elif number % 200 == 99:
            yield run, ToolCalled(call_id="c1", name="get_time", arguments={}, agent="ada")
            yield run, ToolReturned(call_id="c1", name="get_time", outcome="completed", result="12")
            yield run, WorkflowOutput(text=f"step {number} is done")
        else:
            yield f"run{number % 20:02}", TextDelta(agent="ada", text="word ")


def words(agents: int) -> Iterator[tuple[str, AnyFact | AnyNotice]]:
    """Yield the words of so many agents, which take turns."""
    for number in itertools.count():
        yield f"run{number % agents:02}", TextDelta(agent="ada", text=f"word{number // agents} ")


def lines() -> Iterator[tuple[str, AnyFact | AnyNotice]]:
    """Yield facts that each print a line."""
    for number in itertools.count():
        yield "run00", WorkflowOutput(text=f"line {number} of the flood, as long as such lines are")


def events_of(kind: str) -> Iterator[tuple[str, AnyFact | AnyNotice]]:
    """Yield the events of that kind."""
    if kind.isdigit():
        return words(int(kind))
    return tokens() if kind == "tokens" else lines()


async def flood(face: ConsoleInterface, kind: str, rate: float, told: Path) -> None:
    """Show events at that rate, whatever the loop's lag: what is late comes at once."""
    events = events_of(kind)
    began = perf_counter()
    sent = 0
    times = 0
    while True:
        await asyncio.sleep(TICK_S)
        lasted = perf_counter() - began
        for run, event in itertools.islice(events, int(lasted * rate) - sent):
            sent += 1
            face.show(Envelope(run=run, at=0.0, event=event, seq=sent))
        if lasted > times / 4:
            times += 1
            note(told, sent / lasted)


def note(told: Path, rate: float) -> None:
    """Write down how many events came a second."""
    told.write_text(f"{rate:.0f}", encoding="ascii")


async def main(folder: Path, kind: str, rate: float) -> None:
    """Run the console until the person leaves, in a process set up as midstream sets up its own."""
    favour_the_loop()
    face = ConsoleInterface(history_folder=folder)
    settle_memory()
    desk: Console = BusyDesk(int(kind)) if kind.isdigit() else QuietDesk()
    flooding = asyncio.create_task(flood(face, kind, rate, folder / "rate"))
    try:
        await face.run(desk)
    finally:
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        await face.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
