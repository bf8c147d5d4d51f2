"""What holds for every test: nobody's own runs, history or trust are touched."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from midstream.config.places import CONFIG_HOME, JOURNAL_VARIABLE, STATE_HOME

pytest_plugins = ["boxed", "spawning"]

# No test asserts a time: a busy machine makes any example slow.
settings.register_profile("calm", settings(), deadline=None)
settings.load_profile("calm")


def pytest_configure() -> None:
    """Hear Ctrl+C, as what the tests start must: a shell that starts us with `&` took that away."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep journals and settings in a folder that goes when the tests are over."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_HOME, str(folder))
        patch.setenv(CONFIG_HOME, str(folder / "config"))
        patch.delenv(JOURNAL_VARIABLE, raising=False)
        yield
