"""A picture of a run cut to what a frame has room for, and when a new one is made."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from deadline import DEADLINE_S
from fake_session import FakeSession, asked

from midstream.app.ui import Status
from midstream.core.notices import TextDelta
from midstream.core.run import BranchOf, Run, Visit, with_visit
from midstream.language.spec import Definition
from midstream.testing.fakes import define
from midstream.tui import graph_panel
from midstream.tui.answering import Answering
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.dialog import Dialog
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.frame_rows import look
from midstream.tui.graph_panel import (
    LEAST,
    OVER,
    Drawn,
    GraphPanel,
    drawing_key,
    drawn,
    graph_rows,
    width_for,
)
from midstream.tui.on_screen import OnScreen
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Row
from midstream.views.cells import width_of
from midstream.views.graph import graph_of
from midstream.views.lanes import Lane


def line_of(count: int) -> Definition:
    """Return a workflow of so many states in a line."""
    names = ["start", *(f"s{n}" for n in range(1, count))]
    states = [
        {"name": name, "next": following}
        for name, following in zip(names, [*names[1:], "stop"], strict=True)
    ]
    return define({"workflow_name": "line", "states": [*states, {"name": "stop"}]})


LINE = line_of(9)


def at(state: str, **visits: int) -> Run:
    return Run(id="r1", definition=LINE, visit=Visit(state=state), visits=visits)


def picture(state: str, width: int = 78) -> Drawn:
    return drawn(at(state, **{state: 1}), graph_of(LINE), width=width)


def texts(rows: list[Row]) -> list[str]:
    return ["".join(text for _, text in row) for row in rows]


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("room", [3, 5, 8, 16])
@pytest.mark.parametrize("state", ["start", "s4", "s8"])
def test_where_the_run_is_stands_among_the_rows(state: str, room: int, columns: int) -> None:
    found = texts(graph_rows(picture(state, width_for(columns)), room=room, width=columns))

    assert len(found) == room
    assert max(map(width_of, found)) <= columns
    assert any(f"┃ {state} " in text and "◀ ×1" in text for text in found)


def test_rows_left_out_are_marked_above_and_below() -> None:
    begun = texts(graph_rows(picture("start"), room=5, width=80))
    middle = texts(graph_rows(picture("s4"), room=5, width=80))

    assert [text.startswith("⋮") for text in begun] == [False, False, False, False, True]
    assert [text.startswith("⋮") for text in middle] == [True, False, False, False, True]


def test_where_the_run_is_stands_in_the_middle() -> None:
    found = texts(graph_rows(picture("s4"), room=7, width=80))

    assert "┃ s4 " in found[3]


def test_a_picture_there_is_room_for_is_whole() -> None:
    whole = picture("s4")
    found = texts(graph_rows(whole, room=100, width=80))

    assert [text[2:].rstrip() for text in found] == [*whole.lines]
    assert not any(text.startswith("⋮") for text in found)


def test_rows_that_would_tell_nothing_are_left_out() -> None:
    assert graph_rows(picture("s4"), room=LEAST - 1, width=80) == []
    assert graph_rows(picture("s4"), room=0, width=80) == []
    assert len(graph_rows(Drawn(("◉ stop",)), room=1, width=80)) == 1


def test_a_terminal_narrower_than_any_picture_has_it_clipped() -> None:
    found = texts(graph_rows(picture("s4", width_for(16)), room=5, width=16))

    assert all(width_of(text) <= 16 for text in found)
    assert any("s4" in text for text in found)


def test_what_a_file_says_reaches_no_terminal_unsanitized() -> None:
    found = texts(graph_rows(Drawn(("a\x1b[2J\u202eb" * 9,)), room=3, width=40))

    assert len(found) == 1
    assert "\x1b" not in found[0]
    assert "\u202e" not in found[0]
    assert width_of(found[0]) <= 40
    assert found[0].endswith("…")


def test_of_a_state_with_branches_the_states_within_are_shown() -> None:
    inner = [{"name": "look", "next": "tell"}, {"name": "tell"}]
    states: list[dict[str, Any]] = [
        {"name": "start", "next": "review"},
        {"name": "review", "parallel": [{"name": "a", "states": inner}], "next": "stop"},
        {"name": "stop"},
    ]
    definition = define({"workflow_name": "w", "states": states})
    branch = Run(
        id="r1",
        visit=Visit(state="tell"),
        visits={"look": 1, "tell": 1},
        branch=BranchOf(path="a"),
    )
    visit = Visit(state="review", branches={"a": branch})
    run = Run(id="r1", definition=definition, visit=visit)

    found = texts(graph_rows(drawn(run, graph_of(definition), width=78), room=3, width=80))

    assert any("tell" in text and "◀" in text for text in found)


def test_a_picture_depends_on_where_the_run_is_and_on_nothing_else() -> None:
    run = at("s1", start=1, s1=1)

    assert drawing_key(run) == drawing_key(
        msgspec.structs.replace(run, common_data={"x": 1}, seq=9)
    )
    assert drawing_key(run) != drawing_key(at("s1", start=1, s1=2))
    assert drawing_key(run) != drawing_key(with_visit(run, phase="ended"))


# --- room in a frame ------------------------------------------------------------------------------


class Working(FakeSession):
    """A session with so many at work."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    def status(self) -> Status:
        """Return who is at work."""
        lanes = tuple(
            Lane(run="r1", path=f"b{n}", agent="ada", state=f"b{n}", doing="ada is thinking")
            for n in range(self.lanes)
        )
        return msgspec.structs.replace(super().status(), lanes=lanes)


def spare(lanes: int, *, kept: int, height: int = 24, cards: bool = False) -> tuple[int, int]:
    """Return the rows left for a graph, and those of agents, where one of them says a lot."""
    session, renderer = Working(lanes), EventRenderer(with_cards=True)
    if cards:
        session.questions.append(asked(1, "Which?", choices=("red", "blue")))
    renderer.live.hears("r1", TextDelta(agent="ada", text="word\n" * 40))
    screen = look(
        session,
        Dialog(answering=Answering(OnScreen(fresh_s=0.0))),
        renderer=renderer,
        text="",
        width=80,
        height=height,
        now=0.0,
        kept=kept,
    )
    at_work = [row for row in texts([*screen.above]) if row.startswith("⋯")]
    return screen.spare, len(at_work)


def test_words_that_stream_leave_a_graph_its_least() -> None:
    assert spare(1, kept=0) == (0, 1)
    assert spare(1, kept=LEAST) == (LEAST, 1)
    assert spare(2, kept=LEAST) == (LEAST, 2)


def test_those_at_work_keep_their_lines_before_a_graph() -> None:
    assert spare(4, kept=LEAST) == spare(4, kept=0)


def test_a_card_comes_before_a_graph() -> None:
    assert spare(1, kept=LEAST, cards=True)[0] == 0


def test_on_a_small_screen_words_leave_nothing() -> None:
    assert spare(1, kept=LEAST, height=15)[0] == 0


# --- following ------------------------------------------------------------------------------------


class Printed:
    """A scrollback that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.redrawn = 0

    def say(self, text: str, *, kind: str = "info") -> None:
        """Remember words."""
        self.said.append(text)

    def redraw(self) -> None:
        """Count."""
        self.redrawn += 1


class Watching:
    """A graph that is followed, frame by frame. `made` counts the pictures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = at("start", start=1)
        self.active = "r1"
        self.printed = Printed()
        self.background = BackgroundTasks(cast(Scrollback, self.printed))
        self.graph_panel = GraphPanel(cast(Scrollback, self.printed), self.background)
        self.made = 0

        def counted(*args: Any, **named: Any) -> Drawn:
            self.made += 1
            return drawn(*args, **named)

        monkeypatch.setattr(graph_panel, "drawn", counted)

    def frame(self, room: int = 8, width: int = 80) -> list[str]:
        """Return what a frame shows."""
        return texts(self.graph_panel.rows(self.active, room=room, width=width))

    async def settled(self, width: int = 80) -> list[str]:
        """Return what a frame shows once what the last one began has ended."""
        self.frame(width=width)
        await self.background.ended()
        return self.frame(width=width)


async def watching(monkeypatch: pytest.MonkeyPatch, story: Any) -> Watching:
    """Follow the graph of a run through a story."""
    made = Watching(monkeypatch)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as made.background.tasks:
        made.graph_panel.follow(lambda: made.run)
        await story(made)
        await made.background.ended()
    return made


async def test_a_picture_is_made_once_for_each_change_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(made: Watching) -> None:
        assert any("┃ start " in text for text in await made.settled())
        for seq in range(20):
            made.run = msgspec.structs.replace(made.run, seq=seq)
            made.frame()
        assert made.made == 1
        made.run = at("s3", start=1, s3=1)
        assert any("┃ s3 " in text for text in await made.settled())
        assert made.made == 2

    assert (await watching(monkeypatch, story)).printed.redrawn == 2


async def test_another_width_is_another_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(made: Watching) -> None:
        await made.settled()
        assert max(map(width_of, await made.settled(width=24))) <= 24
        assert made.made == 2

    await watching(monkeypatch, story)


async def test_the_picture_before_stays_until_the_next_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(made: Watching) -> None:
        before = await made.settled()
        made.run = at("s3", start=1, s3=1)
        assert made.frame() == before

    await watching(monkeypatch, story)


async def test_once_the_run_is_over_the_picture_goes_and_says_how_to_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(made: Watching) -> None:
        await made.settled()
        made.run = with_visit(at("stop", start=1, stop=1), phase="ended")
        made.active = ""
        assert await made.settled() == []
        assert made.graph_panel.least == 0
        await asyncio.sleep(0)  # Said behind the frame.

    assert (await watching(monkeypatch, story)).printed.said == [OVER]


async def test_a_run_that_is_left_is_followed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(made: Watching) -> None:
        await made.settled()
        made.active = "another"
        assert made.frame() == []
        made.active = "r1"
        assert await made.settled() == []

    assert (await watching(monkeypatch, story)).printed.said == []


async def test_a_graph_that_cannot_be_drawn_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Drawn:
        raise ValueError("no picture")

    async def story(made: Watching) -> None:
        monkeypatch.setattr(graph_panel, "drawn", fails)
        for _ in range(3):
            assert await made.settled() == []

    assert (await watching(monkeypatch, story)).printed.said == ["ValueError: no picture"]
