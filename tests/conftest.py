"""What holds for every test: nobody's own runs, history or trust are touched; and its tier."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
from deadline import DEADLINE_S, PROGRAM_S, in_time
from hypothesis import HealthCheck, settings

from midstream.config.directories import CONFIG_HOME, JOURNAL_VARIABLE, STATE_HOME

# Every worker would compile all tests again, and each of the hundreds of programs they start all of ours.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What is collected below is here to stay, in each worker: the collector looks at none of it, now or later.
gc.disable()

pytest_plugins = ["unhurried", "left_out", "boxed", "spawning", "databases"]

TESTS = Path(__file__).parent
REAL_KITS = {"boxes", "console_kit", "mcp_kit", "pipes_kit", "ptyprocess", "screen"}
"""Modules that start our program, or another, for real: in a terminal, on pipes, as a server."""
REAL_FIXTURES = {"box", "spawn"}
REAL_PLACES = (
    "attacks/commands/test_attack_flipped_looks.py",
    "attacks/normal",
    "attacks/workspaces/test_attack_opening.py",
    "house/test_benchmarks_run.py",
    "house/test_consoles_compared.py",
    "house/test_first_prompt.py",
    "tools/test_sandbox_measuring.py",
    "tools/test_sandbox_terminal.py",
    "torture",
    "system/test_watchdog.py",
    "worker/test_worker_programs.py",
)
LONG_SEARCHES = (
    "core/test_any_kind_of_state.py",
    "language/test_expression_fuzz.py",
    "runtime/test_any_order.py",
    "rehearsal/test_rehearsals_disturbed.py",
    "runtime/test_valid_workflows_run.py",
    "runtime/test_worktrees_killed.py",
)
"""What tries so many runs that it takes a good part of a minute; each rule has its quick tests, too."""
LONGEST = (*LONG_SEARCHES, "house/test_benchmarks_run.py", "torture")

# No test asserts a time: a busy machine makes any example slow. What is searched for is the same in every
# run, so that a change is what fails; `make torture` looks elsewhere each time, and longer. Its own tests
# only see that it looks.
settings.register_profile(
    "storm", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=False
)
settings.register_profile("calm", settings.get_profile("storm"), derandomize=True)
settings.register_profile("long", settings.get_profile("storm"), max_examples=600)
settings.register_profile("brief", settings.get_profile("storm"), max_examples=10)
settings.load_profile("calm")


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl+C, as what the tests start must: a shell that starts us with `&` took that away."""
    config.addinivalue_line(
        "markers", "slow: a real terminal, sandbox or program beside us, or a long search"
    )
    config.addinivalue_line("markers", "raced: a race, tried the oftener the longer is searched")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what `make test` leaves to `make check`, and give async tests a deadline: nobody thinks of it.

    Of the order that the others have made, the longest come first and the slow ones next: they mostly
    wait, so the processes that share the tests do the quick ones beside them, and none is left alone with
    a long one at the end.
    """
    for item in items:
        if isinstance(item, pytest.Function):
            if _is_slow(item):
                item.add_marker("slow")
            if iscoroutinefunction(item.obj):
                is_long = item.get_closest_marker("slow") is not None
                item.obj = in_time(PROGRAM_S if is_long else DEADLINE_S)(item.obj)
    yield
    items.sort(
        key=lambda item: (not _is_of(item, LONGEST), item.get_closest_marker("slow") is None)
    )


def pytest_collection_finish() -> None:
    """Set aside all that was loaded: a full collection would take a third of a second over it."""
    gc.freeze()
    gc.enable()


def _is_slow(item: pytest.Function) -> bool:
    from databases import (
        needs_server,
    )  # a plugin: imported before it is one, its asserts say nothing

    if REAL_FIXTURES & {*item.fixturenames} or needs_server(item):
        return True
    if _is_of(item, REAL_PLACES + LONG_SEARCHES):
        return True
    parts = vars(item.module).values()
    return any(getattr(part, "__module__", None) in REAL_KITS for part in parts)


def _is_of(item: pytest.Item, places: tuple[str, ...]) -> bool:
    return item.path.relative_to(TESTS).as_posix().startswith(places)


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep journals and settings in a folder that goes when the tests are over.

    Nobody out there is spoken to, and trusted: each client, and each of our programs that asks a model,
    would read a hundred certificates.
    """
    folder = tmp_path_factory.mktemp("state")
    certificates = folder / "certificates"
    certificates.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_HOME, str(folder))
        patch.setenv(CONFIG_HOME, str(folder / "config"))
        patch.delenv(JOURNAL_VARIABLE, raising=False)
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(certificates))
        yield


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds the test's settings and state, too; nothing here has a key for a model."""
    monkeypatch.setenv(CONFIG_HOME, str(tmp_path / "config"))
    monkeypatch.setenv(STATE_HOME, str(tmp_path / "state"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
