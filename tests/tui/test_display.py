"""The display: when it draws, and what it does to the terminal before and after."""

import asyncio
import io
from collections.abc import Callable

from deadline import DEADLINE_S
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import DummyOutput

from midstream.tui.display import Display
from midstream.tui.layout import layout_of
from midstream.tui.themes import Look


async def while_open(look: Callable[[Display, list[str]], None]) -> None:
    """Open a display that takes note of its frames, and look at it once it has drawn the first."""
    frames: list[str] = []
    drawn = asyncio.Event()

    def after_frame() -> None:
        frames.append("frame")
        drawn.set()

    with create_pipe_input() as keys:
        display = Display(
            io.StringIO(),
            look=Look(colour=False),
            editing="emacs",
            input=keys,
            output=DummyOutput(),
        )
        layout = layout_of(
            Buffer(),
            above=list,
            prompt=lambda: "› ",
            bottom=list,
            editor_height=lambda: 1,
        )
        display.open(
            layout,
            KeyBindings(),
            before_frame=lambda: None,
            after_frame=after_frame,
            before_key=lambda: None,
            after_key=lambda: None,
            gone=lambda: None,
        )
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(display.run(lambda: False))
            await drawn.wait()
            frames.clear()
            look(display, frames)
            display.exit()
            await running


async def test_a_frame_that_is_due_is_drawn_at_once_before_anything_more_streams() -> None:
    def look(display: Display, frames: list[str]) -> None:
        assert display.draw("")
        assert frames == ["frame"]

    await while_open(look)


async def test_lines_above_are_printed_with_the_frame_below_them() -> None:
    def look(display: Display, frames: list[str]) -> None:
        assert display.draw("done\r\n")
        assert frames == ["frame"]

    await while_open(look)


async def test_after_leaving_nothing_is_open_and_lines_are_printed_as_they_come() -> None:
    kept: list[Display] = []
    await while_open(lambda display, _: kept.append(display))

    assert not kept[0].is_open
    assert not kept[0].is_running
    assert kept[0].draw("late\r\n")
