"""One sandbox for each user, made once; where there can be none, the end of the report says why."""

import pytest
from boxes import Box, users
from left_out import leave_out

BOXES: dict[int, Box] = {}
"""By user; only those whose sandbox works."""
MISSING: dict[int, str] = {}
"""By user, why there is no sandbox."""


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
    """Try everything as every user."""
    if "box" in metafunc.fixturenames:
        names = ["as root" if uid == 0 else "as an ordinary user" for uid in users()]
        metafunc.parametrize("box", users(), indirect=True, ids=names)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the users for whom there is no sandbox. None is made unless it is to be tried."""
    leave_out(items, _why_not)


def _why_not(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    uid = callspec.params.get("box") if callspec is not None else None
    if uid is None or box_of(uid) is not None:
        return None
    return f"there is no sandbox for user {uid}: {MISSING[uid]}"


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Box:
    """Return a box with everything in its place."""
    box = BOXES[request.param]
    box.refresh()
    return box


def pytest_sessionfinish() -> None:
    """Close the boxes."""
    while BOXES:
        BOXES.popitem()[1].close()
