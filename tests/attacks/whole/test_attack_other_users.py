"""Other users of the machine: what is ours can be read, changed, exchanged and rung by nobody else.

They can no more send, answer, stop or resume than they can open the journal: that is the only way in.
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deadline import DEADLINE_S, until
from pipes_kit import OFFLINE, started
from tables import table

from midstream.app.assembly import opened_store
from midstream.config.directories import CONFIG_HOME, JOURNAL_VARIABLE, STATE_HOME
from midstream.config.manager import ConfigManager
from midstream.config.trust import TrustStore
from midstream.language.errors import MidstreamError

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
TRIES = """
import json, os, socket, sys
done = []
def tried(what, try_):
    try:
        try_()
        done.append(what)
    except OSError:
        pass
def ring(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.sendto(b"", path)
for path in json.loads(sys.argv[1]):
    tried(f"list {path}", lambda: os.listdir(path))
    tried(f"read {path}", lambda: open(path, "rb").close())
    tried(f"write {path}", lambda: open(path, "r+b").close())
    tried(f"ring {path}", lambda: ring(path))
    tried(f"put into {path}", lambda: open(path + "/x", "x").close())
    tried(f"exchange {path}", lambda: os.rename(path, path + "-old"))
print(json.dumps(done))
"""


@pytest.fixture
def short() -> Iterator[Path]:
    """Give a folder that everybody may enter, whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="ms-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.needs("root")
@pytest.mark.needs("setpriv")
@table("umask", [0o022, 0o000], ids=oct)
async def test_another_user_reaches_nothing_of_a_console_that_runs(
    short: Path, tmp_path: Path, umask: int
) -> None:
    state = short / "new" / "state"

    def masked() -> None:
        os.umask(umask)

    process = started(
        tmp_path,
        *("--mode", "workflow:code_architecture_review", *OFFLINE),
        env={STATE_HOME: str(state)},
        stdin=subprocess.PIPE,
        before=masked,
    )

    async def rings() -> bool:
        return any(state.rglob("*.bell"))

    await until(rings)
    paths = [state.parent, state, *state.rglob("*")]
    given = json.dumps([str(path) for path in paths])
    tried = await asyncio.to_thread(
        subprocess.run,
        [*AS_NOBODY, "/usr/bin/python3", "-I", "-c", TRIES, given],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    process.communicate(b"")

    assert len(paths) > 5
    assert json.loads(tried.stdout) == []


# --- folders that others have made, or can change ------------------------------------------------------


def made(folder: Path, mode: int = 0o755, owner: int | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)
    if owner is not None:
        os.chown(folder, owner, owner)
    return folder


def linked(place: Path, to: Path, owner: int) -> None:
    made(place.parent)
    place.symlink_to(to)
    os.lchown(place, owner, owner)


def file(path: Path, mode: int, owner: int | None = None) -> None:
    made(path.parent)
    path.write_text("")
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)


WRITABLE: dict[str, Callable[[Path], object]] = {
    "the state, which everybody may write": lambda at: made(at / "state", 0o777),
    "a folder above the state": lambda at: made(at / "above", 0o777),
    "the settings, which everybody may write": lambda at: made(at / "config", 0o777),
    "the file of settings, which everybody may write": (
        lambda at: file(at / "config" / "application.json", 0o666)
    ),
    "a folder above the journal": lambda at: made(at / "runs", 0o777),
}
FOREIGN: dict[str, Callable[[Path], object]] = {
    "the state, made by another user": lambda at: made(at / "state", 0o755, NOBODY),
    "the settings, made by another user": lambda at: made(at / "config", 0o755, NOBODY),
    "the journal, made by another user": (
        lambda at: file(at / "runs" / "journal.db", 0o666, NOBODY)
    ),
    "a link to the state that another user made": (
        lambda at: linked(at / "above" / "state", made(at / "real"), NOBODY)
    ),
    "a link to a folder of another user": (
        lambda at: linked(at / "above" / "state", made(at / "real", 0o700, NOBODY), 0)
    ),
}


def opened(at: Path) -> None:
    """Open what a start opens: settings, trust and the journal."""
    state = "above/state" if (at / "above").exists() else "state"
    places = {CONFIG_HOME: "config", STATE_HOME: state, JOURNAL_VARIABLE: "runs/journal.db"}
    with pytest.MonkeyPatch.context() as patch:
        for variable, place in places.items():
            patch.setenv(variable, str(at / place))
        made(at / "work")
        config = ConfigManager(at / "work")
        TrustStore(config.state_dir)
        opened_store(config).close()


@table("what", WRITABLE)
def test_what_everybody_can_change_is_refused_with_the_way_out(tmp_path: Path, what: str) -> None:
    refuses(tmp_path, WRITABLE[what])


@pytest.mark.needs("root")
@table("what", FOREIGN)
def test_what_another_user_has_made_is_refused_with_the_way_out(tmp_path: Path, what: str) -> None:
    refuses(tmp_path, FOREIGN[what])


def refuses(at: Path, make: Callable[[Path], object]) -> None:
    make(at)

    with pytest.raises(MidstreamError, match=r"every user|another user") as refused:
        opened(at)

    assert str(at) in refused.value.what
    assert refused.value.hint


@pytest.mark.needs("root")
def test_a_home_that_belongs_to_another_user_is_the_persons_choice(tmp_path: Path) -> None:
    home = made(tmp_path / "home", 0o755, NOBODY)

    opened(home)

    assert (home / "runs" / "journal.db").stat().st_uid == os.getuid()


@table("what", ["nothing is there yet", "all is there", "a folder for everybody's own files"])
def test_ones_own_folders_are_taken(tmp_path: Path, what: str) -> None:
    if what == "all is there":
        for name in ("state", "config", "runs"):
            made(tmp_path / name)
    if what == "a folder for everybody's own files":
        made(tmp_path, 0o1777)

    opened(tmp_path)

    assert (tmp_path / "runs" / "journal.db").exists()
