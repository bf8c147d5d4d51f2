"""The sandbox's level, measured: what must not be possible inside is tried there."""

import contextlib
import hashlib
import json
import os
import platform
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from midstream.config.portable import SIGKILL, NotHere, own_user
from midstream.config.private_files import write_whole
from midstream.language.errors import WorldTrouble
from midstream.safety.capability import SandboxLevel
from midstream.system.offloop import Timeout
from midstream.system.own_process import beginning
from midstream.system.supervisor import Child
from midstream.tools.sandbox import bwrap as bubblewrap
from midstream.tools.sandbox import seatbelt, seccomp
from midstream.tools.sandbox.bwrap import NEEDED, Bwrap, found_bwrap, interpreter
from midstream.tools.sandbox.launch import Inside, Machinery
from midstream.tools.sandbox.mounts import made_devices
from midstream.tools.sandbox.seatbelt import Seatbelt, found_seatbelt

_PROBE_PROCESSES: Final = 48
_PROBE_S: Final = 20.0
_ENDING_S: Final = 10.0
"""What stays behind is ended with the sandbox's first process: that needs no time of its own."""
_FILE: Final = "sandbox.json"

_LEAST: Final = ("cannot read outside", "cannot write outside", "cannot write .git and .midstream")
"""What does not keep even files is no sandbox, whatever else it does."""


class Probe(msgspec.Struct, frozen=True):
    """One thing that was tried: what must hold, whether it does, and why not."""

    name: str
    held: bool
    why: str = ""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured. `level` is `full` where every probe held, `none` where nothing could run.

    `bwrap` is the program's path and `version` what it says of itself; `why` says for people what
    keeps the level from being full.
    """

    level: SandboxLevel
    why: str = ""
    probes: tuple[Probe, ...] = ()
    bwrap: str = ""
    version: str = ""


class _Kept(msgspec.Struct, frozen=True):
    key: str
    measured: Measured


def found_box(places: tuple[str, ...] | None = None) -> Bwrap | Seatbelt | str:
    """Return this system's own sandbox, or why there is none, in words for a person.

    `places` are where to look for it instead.
    """
    if sys.platform == "darwin":
        return found_seatbelt(seatbelt.PLACES if places is None else places)
    if sys.platform == "linux":
        return found_bwrap(bubblewrap.PLACES if places is None else places)
    return "midstream knows no sandbox of this system."


def measured(
    state: Path, *, places: tuple[str, ...] | None = None, again: bool = False
) -> Measured:
    """Return the level of this machine's sandbox, for this user, as it was measured.

    A result other than `none` is kept in the folder `state` for as long as the kernel's start, the
    program and we are the same; `again` measures anew. Takes up to a second: call it in a thread.
    """
    box = found_box(places)
    if isinstance(box, str):
        return Measured(level="none", why=box)
    key = _key(box)
    kept = None if again else _read(state / _FILE)
    if kept is not None and kept.key == key:
        return kept.measured
    result = _measure(box, state)
    if result.level != "none":  # That may be a busy machine's doing: it is tried again.
        _write(state / _FILE, _Kept(key, result))
    return result


def machinery(
    state: Path, box: Bwrap | Seatbelt, hidden: tuple[Path, ...] = ()
) -> Machinery | Seatbelt:
    """Return what sandboxes are made with. Root gets device nodes of its own, made in `state`."""
    if isinstance(box, Seatbelt):
        return msgspec.structs.replace(box, hidden=(state, *hidden))
    devices = Path(os.path.realpath(state / "dev")) if own_user() == 0 else None
    if devices is not None and not made_devices(devices):
        devices = None
    return Machinery(
        bwrap=box, machine=platform.machine(), devices=devices, hidden=(state, *hidden)
    )


def _key(box: Bwrap | Seatbelt) -> str:
    from midstream._version import __version__

    parts = [platform.release(), platform.machine(), box.path, box.stamp, _version(box)]
    parts += [__version__, str(own_user()), _inside_source(), sys.executable]
    for name in ("kernel/random/boot_id", "user/max_user_namespaces"):
        with contextlib.suppress(OSError):
            parts.append(Path("/proc/sys", name).read_text("ascii"))
    # In another container, or after chroot, other things may hold.
    root = os.stat("/")
    parts += [str(root.st_dev), str(root.st_ino)]
    parts.append(repr(seccomp.filter_of(platform.machine())))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read(path: Path) -> _Kept | None:
    try:
        about = path.lstat()
        if about.st_uid != own_user() or about.st_mode & 0o022:
            return None
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, kept: _Kept) -> None:
    with contextlib.suppress(WorldTrouble):
        write_whole(path, msgspec.json.encode(kept))


# --- measuring --------------------------------------------------------------------------------


def _version(box: Bwrap | Seatbelt) -> str:
    return box.version if isinstance(box, Bwrap) else ""


def _measure(box: Bwrap | Seatbelt, state: Path) -> Measured:
    named = partial(Measured, bwrap=box.path, version=_version(box))
    try:
        with tempfile.TemporaryDirectory(
            prefix="midstream-probe-", ignore_cleanup_errors=True
        ) as folder:
            said, ended = _tried(machinery(state, box), Path(folder))
    except OSError as error:
        return named(level="none", why=f"The sandbox does not start: {error}.")
    try:
        probes = [Probe(*each) for each in json.loads(said.partition("\n")[0])]
    except (ValueError, TypeError):
        why = f"The sandbox does not start: {beginning(said.strip(), 400) or 'it said nothing'}"
        return named(level="none", why=why)
    probes.append(Probe("everything ends with the command", ended, "" if ended else "it ran on"))
    if isinstance(box, Bwrap):
        why = "" if box.is_new_enough() else f"it is {box.version}"
        wanted = ".".join(map(str, NEEDED))
        probes.append(Probe(f"bubblewrap {wanted} or newer", not why, why))
    broken = [probe for probe in probes if not probe.held]
    why = "; ".join(f"{probe.name}: {probe.why}" for probe in broken)
    level: SandboxLevel = "partial" if broken else "full"
    if any(probe.name in _LEAST for probe in broken):
        level = "none"
    return named(level=level, why=why, probes=tuple(probes))


def _tried(made: Machinery | Seatbelt, folder: Path) -> tuple[str, bool]:
    """Return what the probes said, and whether all that they left behind ended with them."""
    workspace, outside = folder / "workspace", folder / "outside"
    for each in (workspace, outside, workspace / ".git"):
        each.mkdir()
    (outside / "canary").write_text("canary")
    secret = secrets.token_hex(16)
    null = os.stat("/dev/null")
    with _listening() as (port, abstract):
        given: dict[str, Any] = {
            "canary": str(outside / "canary"),
            "secret": secret,
            "port": port,
            "abstract": abstract,
            "null": [null.st_dev, null.st_ino],
            "processes": _PROBE_PROCESSES,
            "tried": seatbelt.TRIED if isinstance(made, Seatbelt) else None,
        }
        argv = [interpreter(), "-I", "-S", "-c", _inside_source(), json.dumps(given)]
        if isinstance(made, Machinery):
            made = msgspec.structs.replace(made, max_processes=_PROBE_PROCESSES)
        environment = {**os.environ, "MIDSTREAM_PROBE": secret}
        box = partial(made.prepared, Inside(workspace=workspace))
        said, ended = _run(Child(argv, folder=workspace, environment=environment, box=box))
        # Nothing is left behind where it is known to run on.
        return said, ended and isinstance(made, Machinery)


def _run(child: Child) -> tuple[str, bool]:
    said = b""

    def hear(is_over: Callable[[], bool], seconds: float) -> None:
        nonlocal said
        timeout = Timeout(seconds)
        while not is_over() and (wait_s := timeout.wait_s()):
            child.wait(wait_s)
            said += child.read()

    try:
        child.listen()
        hear(lambda: child.has_exited, _PROBE_S)
        # What stays behind holds the pipe: that it ends is the proof that nothing stayed.
        hear(lambda: child.is_silent, _ENDING_S)
        if not child.is_silent:
            _end_all(child)
        return said.decode("utf-8", "replace"), child.is_silent
    finally:
        child.end()


def _end_all(child: Child) -> None:
    """End what a sandbox that does not hold has let go: all that prints where it did."""
    assert child.process.stdout is not None
    ours = os.readlink(f"/proc/self/fd/{child.process.stdout.fileno()}")
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):
            if pid != os.getpid() and os.readlink(f"/proc/{pid}/fd/1") == ours:
                os.kill(pid, SIGKILL)


def _inside_source() -> str:
    return Path(__file__).with_name("inside_probes.py").read_text("utf-8")


@contextlib.contextmanager
def _listening() -> Iterator[tuple[int, str]]:
    """Listen as the host's services do: on loopback and on an abstract socket."""
    if sys.platform == "win32":
        raise NotHere
    abstract = f"midstream-probe-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        if sys.platform == "linux":  # No other system has sockets without a file.
            unix.bind("\0" + abstract)
            unix.listen()
        yield tcp.getsockname()[1], abstract
