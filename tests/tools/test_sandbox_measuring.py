"""What is measured of the sandbox: that holes are noticed, and that nothing is claimed without a look."""

import contextlib
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deadline import wait_until

from midstream.tools.sandbox import bwrap, launch, mounts, probes
from midstream.tools.sandbox.bwrap import Bwrap, found_bwrap
from midstream.tools.sandbox.launch import Prepared
from midstream.tools.sandbox.probes import Measured, measured
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.sandbox.seccomp import MACHINES


def bubblewrap_runs() -> bool:
    """Return whether it runs here at all, found out without any of ours."""
    path = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if path is None:
        return False
    words = ["--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "/bin/true"]
    return subprocess.run([path, *words], capture_output=True).returncode == 0


RUNS = bubblewrap_runs()
HOLES = [
    ("--unshare-net", "no TCP to the host"),
    ("--unshare-net", "no abstract sockets of the host"),
    ("--unshare-pid", "processes of its own"),
    ("--seccomp", "no rare system calls"),
    ("--seccomp", "no typing into the terminal"),
    ("--seccomp", "no foreign system calls"),
    ("--seccomp", "no set-user-id files"),
]
"""A flag, and a probe that notices when it is missing."""


def running(word: str) -> list[str]:
    """Return the processes started with that word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
    return found


DIES_FIRST = """
import os, signal, sys, time
from pathlib import Path
from midstream.system.supervisor import Child
from midstream.tools.sandbox.bwrap import found_bwrap
from midstream.tools.sandbox.launch import Inside, Prepared
from midstream.tools.sandbox.probes import machinery
workspace, when = Path(sys.argv[1]), sys.argv[2]

def box(argv, environment, tag):
    ready = Prepared(
        machinery(workspace.parent, found_bwrap()),
        Inside(workspace=workspace),
        argv,
        environment,
        tag,
    )
    if when == "between its halves":
        # The outer one tells us of the inner one before it lets that go on: it waits for room to do so.
        full = os.open(f"/proc/self/fd/{ready._info}", os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            try:
                while os.write(full, b" " * size):
                    pass
            except BlockingIOError:
                pass
        os.close(full)
    ready.begin = begin
    return ready

def begin(pid):
    if when == "between its halves":
        while not Path(f"/proc/{pid}/task/{pid}/children").read_text():
            time.sleep(0.001)
        # Until it writes, and so waits, it may not have said yet that it dies with us.
        # Where nobody may see that, some time has to do.
        try:
            while Path(f"/proc/{pid}/syscall").read_text().split()[0] != WRITE:
                time.sleep(0.001)
        except OSError:
            time.sleep(0.5)
    else:
        time.sleep(float(when))
    os.kill(os.getpid(), signal.SIGKILL)

WRITE = "1" if os.uname().machine == "x86_64" else "64"
Child(
    ["/bin/sh", "-c", "touch ran; exec sleep 3600"],
    folder=workspace,
    environment=os.environ,
    box=box,
    stdout=None,
    stderr=None,
)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_the_level_is_none_only_where_bubblewrap_does_not_run(state: Path) -> None:
    result = measured(state)

    assert (result.level != "none") == RUNS, result.why
    assert (result.why == "") == (result.level == "full")


def test_without_bubblewrap_the_reason_is_told(state: Path) -> None:
    assert measured(state, places=("/nonexistent/bwrap",)) == Measured(
        level="none", why="bubblewrap is not installed (the program `bwrap`)."
    )


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_program_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bubblewrap 0.9.0\n")
    program.chmod(mode)

    found = found_bwrap((str(program),))

    assert isinstance(found, str)
    assert "is not used" in found


def test_a_link_to_a_program_of_a_workspace_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "evil").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").symlink_to(folder / "evil")

    assert "is not used" in str(found_bwrap((str(tmp_path / "bwrap"),)))


def test_no_path_of_the_environment_is_asked_for_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    found = found_bwrap()

    assert str(tmp_path) not in (found.path if isinstance(found, Bwrap) else found)


def test_a_program_that_does_not_start_a_sandbox_gives_none_with_what_it_said(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit\n'
        '[ "$1" = --help ] && exit\necho "bwrap: No permissions to create new namespace"\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(bwrap, "_weakness", lambda path: "")

    result = measured(state, places=(str(program),))

    assert result.level == "none"
    assert "No permissions to create new namespace" in result.why


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each measurement."""
    made: list[int] = []

    def counted(*_arguments: Any) -> Measured:
        made.append(1)
        return Measured(level="full", bwrap="/usr/bin/bwrap", version="0.8.0")

    monkeypatch.setattr(probes, "_measure", counted)
    monkeypatch.setattr(probes, "found_bwrap", lambda places: KNOWN)
    return made


KNOWN = Bwrap(path="/usr/bin/bwrap", version="0.8.0", stamp="1", by_descriptor=True)


def test_a_measurement_is_kept_in_a_file_nobody_else_reads(
    state: Path, measurements: list[int]
) -> None:
    first, second = measured(state), measured(state)

    assert first == second
    assert len(measurements) == 1
    assert (state / "sandbox.json").stat().st_mode & 0o777 == 0o600


def test_a_sandbox_that_did_not_start_is_tried_again(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [Measured(level="none", why="it took too long"), Measured(level="full")]
    monkeypatch.setattr(probes, "_measure", lambda *_: results.pop(0))
    monkeypatch.setattr(probes, "found_bwrap", lambda places: KNOWN)

    assert [measured(state).level for _ in range(3)] == ["none", "full", "full"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("stamp", "2"), ("version", "0.9.0"), ("path", "/bin/bwrap")],
)
def test_a_changed_program_is_measured_anew(
    state: Path, measurements: list[int], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    measured(state)
    changed = msgspec.structs.replace(KNOWN, **{name: value})
    monkeypatch.setattr(probes, "found_bwrap", lambda places: changed)

    measured(state)

    assert len(measurements) == 2


def test_another_kernel_is_measured_anew(
    state: Path, measurements: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(state)
    monkeypatch.setattr(platform, "release", lambda: "99.0")

    measured(state)

    assert len(measurements) == 2


@pytest.mark.parametrize("content", [b"", b"{", b'{"key": "x", "measured": {"level": "full"}}'])
def test_a_file_that_is_not_ours_is_not_believed(
    state: Path, measurements: list[int], content: bytes
) -> None:
    state.mkdir()
    (state / "sandbox.json").write_bytes(content)

    measured(state)

    assert len(measurements) == 1


def test_a_file_that_others_could_write_is_not_believed(
    state: Path, measurements: list[int]
) -> None:
    measured(state)
    (state / "sandbox.json").chmod(0o666)

    measured(state)

    assert len(measurements) == 2


def test_before_it_is_measured_the_level_is_none(state: Path, measurements: list[int]) -> None:
    sandbox = Sandbox(state)

    assert (sandbox.level, measurements) == ("none", [])


if RUNS:

    @pytest.fixture
    def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Return a function that leaves a flag, with what belongs to it, out of every sandbox."""
        flags_of = Prepared._flags

        def leave_out(flag: str) -> None:
            def fewer(self: Prepared, *arguments: Any, **more: Any) -> list[str]:
                flags = flags_of(self, *arguments, **more)
                at = flags.index(flag)
                takes = 2 if flag == "--seccomp" else 1
                return flags[:at] + flags[at + takes :]

            monkeypatch.setattr(Prepared, "_flags", fewer)
            if flag == "--unshare-pid":
                # What gets out stays, and is waited for in vain.
                monkeypatch.setattr(probes, "_ENDING_S", 1.0)

        return leave_out

    @pytest.mark.parametrize(("flag", "probe"), HOLES)
    def test_a_hole_is_noticed(
        state: Path, without: Callable[[str], None], flag: str, probe: str
    ) -> None:
        needless = probe == "no foreign system calls" and platform.machine() != "x86_64"
        without(flag)

        result = measured(state)

        assert result.level == "partial" or needless, result
        assert probe in [each.name for each in result.probes if not each.held] or needless
        assert probe in result.why or needless

    def test_what_got_out_of_a_sandbox_with_a_hole_is_ended(
        state: Path, without: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        length = f"600.{secrets.randbelow(10**9)}"
        source = probes._inside_source().replace('"600"', f'"{length}"')
        assert length in source
        monkeypatch.setattr(probes, "_inside_source", lambda: source)
        without("--unshare-pid")

        result = measured(state)

        assert "everything ends with the command" in result.why
        wait_until(lambda: not running(length))

    def test_a_machine_without_a_filter_is_partial(
        state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(launch, "filter_of", lambda machine, unix: None)

        assert measured(state).level == "partial"

    def test_writable_kernel_settings_are_noticed_by_root(
        state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_system = mounts.add_system

        def weaker(built: mounts.View, **more: Any) -> None:
            add_system(built, **more)
            at = built.arguments.index("--remount-ro")
            del built.arguments[at : at + 2]

        monkeypatch.setattr(launch, "add_system", weaker)

        broken = [each.name for each in measured(state).probes if not each.held]

        assert "kernel settings are read-only" in broken

    def test_devices_of_the_host_are_noticed_by_root(
        state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(probes, "made_devices", lambda folder: False)

        broken = [each.name for each in measured(state).probes if not each.held]

        assert ("devices cannot be changed" in broken) == (os.getuid() == 0)

    def test_a_machine_we_know_is_full(state: Path) -> None:
        result = measured(state)

        limits = "processes are limited: more than 48 processes could be started"
        assert result.level == "full" or result.why == limits or platform.machine() not in MACHINES

    def test_a_workspace_below_var_tmp_has_a_sandbox(state: Path) -> None:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            assert measured(Path(folder) / "state").level == measured(state).level

    @pytest.mark.parametrize("when", ["0", "0.002", "0.01", "0.3", "between its halves"])
    def test_of_a_command_whose_owner_dies_before_it_begins_nothing_runs_or_stays(
        tmp_path: Path, when: str
    ) -> None:
        workspace = tmp_path / "workspace"
        workspace.mkdir()

        died = subprocess.run([sys.executable, "-c", DIES_FIRST, str(workspace), when])

        assert died.returncode == -signal.SIGKILL
        wait_until(lambda: not running(str(workspace)))
        assert not (workspace / "ran").exists()
