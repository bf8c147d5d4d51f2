"""What midstream can do without, its tests can too: what is not here is left out, and the end says so.

A test that wants a program says `@pytest.mark.needs("rg")`; with `among="/usr/bin:/bin"` it has to
stand in one of these folders rather than on the PATH. One that can go either way tries both. `"root"`
is no program: it wants to be that user; nor is `"sandbox"`: it wants one that is measured as full; nor
`"npm"`: it wants the packages of `tests/npm`, which `make check` installs, and the node that runs them.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LEFT_OUT: dict[str, int] = {}
"""Why, and how many tests."""
_NPM = Path(__file__).with_name("npm")
_TOLD = "left_out"
"""How a worker of pytest-xdist tells the process that writes the report."""


def leave_out(items: list[pytest.Item], why_not: Callable[[pytest.Item], str | None]) -> None:
    """Leave out the tests for which there is a reason, and remember it for the end."""
    reasons = [(item, why_not(item)) for item in items]
    for item, why in reasons:
        if why is not None:
            LEFT_OUT[why] = LEFT_OUT.get(why, 0) + 1
            item.config.hook.pytest_deselected(items=[item])
    items[:] = [item for item, why in reasons if why is None]


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "needs(program, among=None): left out where it is not")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, of what is to be tried, what wants a program that is not here."""
    leave_out(items, lambda item: next(filter(None, map(_lacks, item.iter_markers("needs"))), None))


def _lacks(mark: pytest.Mark) -> str | None:
    name, among = mark.args[0], mark.kwargs.get("among")
    if name == "root":
        return None if os.getuid() == 0 else "only root can be other users, too"
    if name == "npm":
        are_there = shutil.which("node") is not None and (_NPM / "node_modules" / "ready").exists()
        return None if are_there else "the packages of tests/npm are not installed"
    if name == "sandbox":
        return _lacks_sandbox()
    if shutil.which(name, path=among) is not None:
        return None
    return f"there is no {name} " + ("on the PATH" if among is None else f"in {among}")


@cache
def _lacks_sandbox() -> str | None:
    from midstream.tools.sandbox.sandbox import Sandbox

    with tempfile.TemporaryDirectory() as folder:
        measured = Sandbox(Path(folder)).measure()
    return None if measured.level == "full" else f"the sandbox here is {measured.level}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what could not be tried here."""
    for why, count in LEFT_OUT.items():
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"Left out, {tests}: {why}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that writes the report."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_TOLD] = LEFT_OUT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker left out: all of them collect the same. One that crashed told nothing."""
    LEFT_OUT.update(getattr(node, "workeroutput", {}).get(_TOLD, {}))
