"""What is said of the sandbox in a folder, as far as it is known."""

from pathlib import Path

from midstream.tool.sandbox.measuring import Measured
from midstream.tool.sandbox.sandbox import Sandbox


class FullSandbox(Sandbox):
    """One that was measured as full, whatever there is here."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self._known = (Measured(level="full"), None)


def test_a_folder_that_no_sandbox_can_take_has_none(tmp_path: Path) -> None:
    box = FullSandbox(tmp_path / "state")
    inside, outside = tmp_path / "w", Path("/usr")
    inside.mkdir()
    assert box.level_in(outside) == "full", "nobody has looked yet"

    assert box.unfit(inside) == ""
    assert box.unfit(outside) != ""

    assert (box.level_in(inside), box.level_in(outside)) == ("full", "none")
