"""What is said of the sandbox in a folder, as far as it is known."""

from pathlib import Path

import pytest

from midstream.app.commands.permission_commands import next_mode, without_sandbox
from midstream.app.status_line import permission_words
from midstream.safety.capability import PermissionMode, SandboxLevel
from midstream.safety.policy import Policy
from midstream.tools.permissions import Permissions
from midstream.tools.sandbox.probes import Measured
from midstream.tools.sandbox.sandbox import Sandbox


class FullSandbox(Sandbox):
    """One that was measured as full, whatever there is here."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self._known = (Measured(level="full"), None)


def test_a_folder_that_no_sandbox_can_take_has_none(tmp_path: Path) -> None:
    box = FullSandbox(tmp_path / "state")
    inside, outside = tmp_path / "w", Path("/usr")
    inside.mkdir()
    assert (box.level_in(inside), box.level_in(outside)) == (None, None), "nobody has looked yet"

    assert box.unfit(inside) == ""
    assert box.unfit(outside) != ""

    assert (box.level_in(inside), box.level_in(outside)) == ("full", "none")


def test_before_it_is_measured_no_word_of_a_sandbox_is_said_and_none_is_relied_on(
    tmp_path: Path,
) -> None:
    box = Sandbox(tmp_path / "state", places=())
    permits = Permissions(Policy(mode="auto"), sandbox=lambda: box.level_in(tmp_path))
    assert (permission_words(permits), permits.policy().sandbox) == ("auto", "none")
    assert next_mode(permits) == "plan: only looks, changes nothing"
    assert next_mode(permits) == "ask: changes and commands ask first"
    assert permission_words(permits) == "asks"

    box.unfit(tmp_path)

    assert permission_words(permits) == "asks, no sandbox"


@pytest.mark.parametrize(
    ("mode", "level", "said"),
    [
        ("auto", "none", "in auto every command asks first, as in ask: install bubblewrap"),
        ("auto", "partial", "midstream doctor --sandbox says what it lacks"),
        ("auto", "full", ""),
        ("auto", None, ""),
        ("ask", "none", ""),
    ],
)
def test_auto_says_where_it_is_ask_for_commands(
    mode: PermissionMode, level: SandboxLevel | None, said: str
) -> None:
    words = without_sandbox(Permissions(Policy(mode=mode), sandbox=lambda: level))

    assert said in words
    assert bool(said) == bool(words)
