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
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from midstream.config.portable import SIGKILL, NotHere, own_user
from midstream.config.private_files import make_private
from midstream.safety.capability import SandboxLevel
from midstream.system.supervisor import Child
from midstream.tools.sandbox import seccomp
from midstream.tools.sandbox.bwrap import NEEDED, PLACES, Bwrap, found_bwrap
from midstream.tools.sandbox.launch import Machinery, Prepared
from midstream.tools.sandbox.mounts import made_devices

_PROBE_PROCESSES: Final = 48
_PROBE_S: Final = 20.0
_ENDING_S: Final = 10.0
"""What stays behind is ended with the sandbox's first process: that needs no time of its own."""
_FILE: Final = "sandbox.json"


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


def measured(state: Path, *, places: tuple[str, ...] = PLACES, again: bool = False) -> Measured:
    """Return the level of this machine's sandbox, for this user, as it was measured.

    A result other than `none` is kept in the folder `state` for as long as the kernel's start, the
    program and we are the same; `again` measures anew. Takes up to a second: call it in a thread.
    """
    bwrap = found_bwrap(places)
    if isinstance(bwrap, str):
        return Measured(level="none", why=bwrap)
    key = _key(bwrap)
    kept = None if again else _read(state / _FILE)
    if kept is not None and kept.key == key:
        return kept.measured
    result = _measure(bwrap, state)
    if result.level != "none":  # That may be a busy machine's doing: it is tried again.
        _write(state / _FILE, _Kept(key, result))
    return result


def machinery(state: Path, bwrap: Bwrap, hidden: tuple[Path, ...] = ()) -> Machinery:
    """Return what sandboxes are made with. Root gets device nodes of its own, made in `state`."""
    devices = Path(os.path.realpath(state / "dev")) if own_user() == 0 else None
    if devices is not None and not made_devices(devices):
        devices = None
    return Machinery(
        bwrap=bwrap, machine=platform.machine(), devices=devices, hidden=(state, *hidden)
    )


def _key(bwrap: Bwrap) -> str:
    from midstream import __version__

    parts = [platform.release(), platform.machine(), bwrap.path, bwrap.stamp, bwrap.version]
    parts += [__version__, str(own_user()), _inside_source(), sys.executable]
    for name in ("kernel/random/boot_id", "user/max_user_namespaces"):
        with contextlib.suppress(OSError):
            parts.append(Path("/proc/sys", name).read_text("ascii"))
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
    with contextlib.suppress(OSError):
        make_private(path.parent)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(kept))
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


# --- measuring --------------------------------------------------------------------------------


def _measure(bwrap: Bwrap, state: Path) -> Measured:
    named = partial(Measured, bwrap=bwrap.path, version=bwrap.version)
    try:
        with tempfile.TemporaryDirectory(
            prefix="midstream-probe-", ignore_cleanup_errors=True
        ) as folder:
            said, ended = _tried(machinery(state, bwrap), Path(folder))
    except OSError as error:
        return named(level="none", why=f"The sandbox does not start: {error}.")
    try:
        probes = [Probe(*each) for each in json.loads(said.partition("\n")[0])]
    except (ValueError, TypeError):
        why = f"The sandbox does not start: {said.strip()[:400] or 'it said nothing'}"
        return named(level="none", why=why)
    wanted = ".".join(map(str, NEEDED))
    probes.append(Probe("everything ends with the command", ended, "" if ended else "it ran on"))
    probes.append(
        Probe(
            f"bubblewrap {wanted} or newer",
            bwrap.is_new_enough(),
            "" if bwrap.is_new_enough() else f"it is {bwrap.version}",
        )
    )
    broken = [probe for probe in probes if not probe.held]
    why = "; ".join(f"{probe.name}: {probe.why}" for probe in broken)
    return named(level="partial" if broken else "full", why=why, probes=tuple(probes))


def _tried(made: Machinery, folder: Path) -> tuple[str, bool]:
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
        }
        argv = [interpreter(), "-I", "-S", "-c", _inside_source(), json.dumps(given)]
        ready = Prepared(
            msgspec.structs.replace(made, max_processes=_PROBE_PROCESSES),
            argv,
            workspace=workspace,
            environment={**os.environ, "MIDSTREAM_PROBE": secret},
            tag={},
        )
        with ready:
            return _run(ready)


def _run(ready: Prepared) -> tuple[str, bool]:
    child = Child((), folder=None, environment={}, box=lambda *_: ready)
    said = b""

    def hear(is_over: Callable[[], bool], seconds: float) -> None:
        nonlocal said
        until = time.monotonic() + seconds
        while not is_over() and time.monotonic() < until:
            child.wait(until - time.monotonic())
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


def interpreter() -> str:
    """Return our own interpreter where the sandbox shows it, else the system's."""
    ours = os.path.realpath(sys.executable or "/")
    is_shown = ours.startswith(f"{os.path.realpath(sys.base_prefix)}/")
    return ours if is_shown and os.access(ours, os.X_OK) else "/usr/bin/python3"


def _inside_source() -> str:
    return Path(__file__).with_name("init.py").read_text("utf-8")


@contextlib.contextmanager
def _listening() -> Iterator[tuple[int, str]]:
    """Listen as the host's services do: on loopback and on an abstract socket."""
    if sys.platform == "win32":
        raise NotHere
    abstract = f"midstream-probe-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + abstract)
        unix.listen()
        yield tcp.getsockname()[1], abstract
