"""What the screen says of runs at work: how far, how long, at what cost, and those behind."""

from typing import cast

from midstream.app.status_line import StatusModel
from midstream.core.events import RunStarted, StateTransition, Usage
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope, JournalStalled, JournalWorks, TextDelta
from midstream.core.run import Run, with_usage
from midstream.runtime.ports import Machine
from midstream.testing.fakes import define
from midstream.tui.live_region import LiveText
from midstream.views.run_status import STANDS_STILL

LINE = define(
    {
        "workflow_name": "line",
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": "dude", "context": "talk"}],
        "states": [
            {"name": "start", "agent": "dude", "next": "end"},
            {"name": "end", "agent": "dude"},
        ],
    }
)
BEGUN = RunStarted(workflow="line", definition=LINE)


class Standing:
    """A machine that does nothing but stand where its run is."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_closed = False


def running(id: str) -> Machine:
    """Return a run in its first state."""
    run = apply(Run(id=id), BEGUN)
    run = apply(run, StateTransition(source="", target="start", reason="started"))
    return cast(Machine, Standing(run))


def short(id: str) -> str:
    return id[:2]


def test_a_run_that_began_here_says_for_how_long() -> None:
    outlook = StatusModel(now=lambda: 1_125.0)
    machine = running("r1")

    assert outlook.progress(machine, "$0.01") == "line · step 1 of 2 · $0.01"
    outlook.on_event(Envelope(run="r1", at=1_000.0, event=BEGUN, seq=1))
    assert outlook.progress(machine, "$0.01") == "line · step 1 of 2 · 2 min 5 s · $0.01"


def test_runs_behind_have_a_line_under_their_name() -> None:
    front, behind = running("r1"), running("xyz")

    lanes = StatusModel().lanes(front, (front, behind), short)
    assert [(lane.run, lane.label) for lane in lanes] == [("r1", ""), ("xyz", "line (xy)")]
    assert lanes[1].doing == "dude is thinking"


def test_what_all_runs_cost_is_counted_again_when_one_asked_a_model() -> None:
    outlook = StatusModel()
    machine = running("r1")
    assert outlook.cost([machine]) == ""

    usage = Usage(model="m", input_tokens=1, cost_usd="0.5")
    asked = with_usage(machine.run, requests=(("dude", usage),))
    assert outlook.cost([cast(Machine, Standing(asked))]) == "$0.5000"


def test_a_run_whose_journal_is_away_stands_still_until_it_is_back() -> None:
    model, front, behind = StatusModel(), running("r1"), running("xyz")
    live = LiveText()
    live.hears("r1", TextDelta(agent="dude", text="Half a"))

    def shown() -> list[str]:
        lanes = model.lanes(front, (front, behind), short)
        found = live.shown([], height=9, width=80, lanes=lanes, run="r1")
        return ["".join(text for _, text in row) for row in found]

    assert any("dude is writing" in row for row in shown())
    model.on_event(Envelope(run="r1", at=0.0, event=JournalStalled(error="It is away.")))

    assert not any("is writing" in row for row in shown())
    assert [lane.doing for lane in model.lanes(front, (front, behind), short)] == [
        STANDS_STILL,
        "dude is thinking",
    ]
    model.on_event(Envelope(run="r1", at=0.0, event=JournalWorks()))
    assert any("dude is writing" in row for row in shown())
