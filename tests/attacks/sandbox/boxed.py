"""One sandbox for each user, made once; where there can be none, the end of the report says why."""

from typing import Any

import pytest
from boxes import Box, users

BOXES: dict[int, Box] = {}
"""By user; only those whose sandbox works."""
MISSING: dict[int, str] = {}
"""By user, why there is no sandbox."""
_TOLD = "no_sandbox"
"""How a worker of pytest-xdist tells the process that writes the report."""


def box_of(uid: int) -> Box | None:
    """Return the box of a user, None where there is no sandbox for them."""
    if uid not in BOXES and uid not in MISSING:
        box = Box(uid)
        if box.first["level"] == "none":
            MISSING[uid] = box.first["why"]
            box.close()
        else:
            BOXES[uid] = box
    return BOXES.get(uid)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try everything as every user for whom there is a sandbox."""
    if "box" in metafunc.fixturenames:
        able = [uid for uid in users() if box_of(uid) is not None]
        names = ["as root" if uid == 0 else "as an ordinary user" for uid in able]
        metafunc.parametrize("box", able, indirect=True, ids=names)


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Box:
    """Return a box with everything in its place."""
    box = BOXES[request.param]
    box.refresh()
    return box


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what could not be tried here."""
    for uid, why in MISSING.items():
        terminalreporter.write_line(f"No sandbox for user {uid}, escapes were not tried: {why}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the boxes."""
    while BOXES:
        BOXES.popitem()[1].close()
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_TOLD] = [*MISSING.items()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what could not be tried by a worker; one that has crashed told nothing."""
    MISSING.update(getattr(node, "workeroutput", {}).get(_TOLD, ()))
