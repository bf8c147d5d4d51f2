"""What holds for every test: nobody's own runs, history or trust are touched."""

from collections.abc import Iterator

import pytest

from midstream.assembly import JOURNAL_VARIABLE
from midstream.config.places import CONFIG_HOME, STATE_HOME


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep journals and settings in a folder that goes when the tests are over."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_HOME, str(folder))
        patch.setenv(CONFIG_HOME, str(folder / "config"))
        patch.delenv(JOURNAL_VARIABLE, raising=False)
        yield
