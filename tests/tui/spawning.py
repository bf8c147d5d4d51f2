"""The console over a fake session, in a real terminal."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen import Screen, Spawn

PROGRAM = str(Path(__file__).with_name("fake_session.py"))


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Return what starts one, ready for its first key: `fresh_s` is how long a card ripens."""
    screens: list[Screen] = []

    def started(
        *,
        folder: str = "",
        fresh_s: float = 0.0,
        cols: int = 80,
        rows: int = 24,
        cwd: Path | None = None,
        **env: str,
    ) -> Screen:
        screen = Screen.spawn(
            [sys.executable, PROGRAM, folder, str(fresh_s)],
            {"SHELL": "/bin/sh", **env},
            cols=cols,
            rows=rows,
            cwd=cwd,
        )
        screens.append(screen)
        screen.wait_for("chat ")
        return screen

    yield started
    for screen in screens:
        screen.close()


@pytest.fixture
def screen(spawn: Spawn) -> Screen:
    """Return the screen of one with nothing special about it."""
    return spawn()
