"""Limits that end what hangs, set so far off in the tests' own process that a busy machine meets none.

Where one is met the product keeps its promises otherwise than a test expects: it asks where it would have
looked, or has no sandbox. Each worker also decides by what it measured which tests there are.
"""

from deadline import DEADLINE_S

from midstream.tools import manager, read_only_launch
from midstream.tools.sandbox import launch, probes


def pytest_configure() -> None:
    """Set them before anything is collected."""
    vars(probes).update(_PROBE_S=DEADLINE_S, _ENDING_S=DEADLINE_S)
    vars(launch).update(BEGIN_S=DEADLINE_S)
    vars(read_only_launch).update(_GIT_CHECK_S=DEADLINE_S)
    vars(manager).update(PLAN_S=DEADLINE_S)
