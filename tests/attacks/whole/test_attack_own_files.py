"""midstream's own settings, state and journal, through workspaces that lie in them or around them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tables import table
from toolbench import Bench

from midstream.config.directories import CONFIG_HOME, JOURNAL_VARIABLE, STATE_HOME
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager
from midstream.tools.sandbox.probes import Measured
from midstream.tools.sandbox.sandbox import Sandbox

PLACES: dict[str, tuple[str, str, str, str]] = {
    # what is tried: config, state, journal (each from the root), the workspace
    "a workspace that is the settings": ("u", "s", "", "u"),
    "a workspace in the settings, with the tools": ("u", "s", "", "u/tools"),
    "a workspace that is the state": ("u", "s", "", "s"),
    "a workspace in the state": ("u", "s", "", "s/trusted"),
    "a workspace around the settings": ("w/u", "s", "", "w"),
    "a workspace around settings nobody made yet": ("w/new", "s", "", "w"),
    "a workspace far around the state": ("u", "w/a/b/s", "", "w"),
    "a journal in the workspace": ("u", "s", "w/journal.db", "w"),
    "a journal in a folder of the workspace": ("u", "s", "w/runs/deep/j.db", "w"),
}
FILES: dict[str, tuple[str, ...]] = {
    "a workspace that is the settings": ("application.json", "tools/evil.py"),
    "a workspace in the settings, with the tools": ("evil.py",),
    "a workspace that is the state": ("trust.json", "journal.db"),
    "a workspace in the state": ("copy",),
    "a workspace around the settings": ("u/application.json", "u/tools/evil.py", "link/a.py"),
    "a workspace around settings nobody made yet": ("new/tools/evil.py", "new/application.json"),
    "a workspace far around the state": ("a/b/s/trust.json", "a/b/s/new"),
    "a journal in the workspace": ("journal.db", "journal.db-wal", "journal.db.d/x", "JOURNAL.DB"),
    "a journal in a folder of the workspace": ("runs/deep/j.db", "runs/deep/j.db-shm"),
}


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def settle(attack: str) -> Path:
        config, state, journal, workspace = PLACES[attack]
        monkeypatch.setenv(CONFIG_HOME, str(tmp_path / config))
        monkeypatch.setenv(STATE_HOME, str(tmp_path / state))
        if journal:
            monkeypatch.setenv(JOURNAL_VARIABLE, str(tmp_path / journal))
        for name in (config, state, workspace):
            if not name.endswith("new"):
                (tmp_path / name).mkdir(parents=True, exist_ok=True)
        if workspace == "w":
            (tmp_path / "w/link").symlink_to(tmp_path / config)
        return tmp_path / workspace

    return settle


@table(("attack", "file"), [(a, f) for a, files in FILES.items() for f in files])
async def test_no_file_tool_touches_them(
    settled: Callable[[str], Path], attack: str, file: str
) -> None:
    workspace = settled(attack)
    bench = Bench(workspace, ToolManager(policy=lambda: Policy(mode="full", allow=("write: **",))))

    said = await bench.failure("write_file", path=file, content="x = 1\n")
    await bench.failure("read_files", paths=[file])

    assert "midstream's own" in said or "leads out" in said or "link" in said
    assert not (workspace / file).exists()


@table("attack", [a for a in PLACES if a != "a workspace around the settings"])
def test_no_sandboxed_command_runs_unasked_where_it_could_reach_them(
    settled: Callable[[str], Path], attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = settled(attack)
    config, state, journal, _ = PLACES[attack]
    hidden = [tmp_path / config, *([(tmp_path / journal).parent] if journal else [])]
    sandbox = Sandbox(tmp_path / state, hidden=hidden)
    full = Measured(level="full", why="", probes=())
    monkeypatch.setattr(Sandbox, "measure", lambda _self, again=False: full)

    assert "midstream" in sandbox.unfit(workspace)


def test_a_plain_workspace_beside_them_is_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("w/own", "u", "s"):
        (tmp_path / name).mkdir(parents=True)
    sandbox = Sandbox(tmp_path / "s", hidden=[tmp_path / "u", tmp_path / "w/own"])
    full = Measured(level="full", why="", probes=())
    monkeypatch.setattr(Sandbox, "measure", lambda _self, again=False: full)

    assert sandbox.unfit(tmp_path / "w") == ""


async def test_no_search_shows_what_they_hold(settled: Callable[[str], Path]) -> None:
    workspace = settled("a workspace around the settings")
    (workspace / "u/application.json").write_text('{"note": "canary"}')
    bench = Bench(workspace)

    assert await bench.text("exact_search", text="canary") == "No matches."
    assert "canary" not in await bench.text("measure_code")
