"""A command made ready to start in the sandbox, seen through its start, and cleared up after."""

import json
import os
import select
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.config.portable import (
    FOLDER,
    O_CLOEXEC,
    NotHere,
    lock_file,
    own_user,
    try_lock_file,
)
from midstream.system.programs import environment_inside
from midstream.system.workspace_paths import Place
from midstream.tools.sandbox import rlimits
from midstream.tools.sandbox.bwrap import Bwrap
from midstream.tools.sandbox.guarded_files import LOCKED, NOTHING, Guarded
from midstream.tools.sandbox.masks import NO_MASKS, Masks
from midstream.tools.sandbox.mounts import (
    View,
    add_devices,
    add_home,
    add_looked_at,
    add_system,
    add_workspace,
    home_of,
    safe_path,
)
from midstream.tools.sandbox.seccomp import filter_of

if TYPE_CHECKING:
    from midstream.tools.sandbox.proxy import Proxy

BEGIN_S: Final = 10.0
"""How long bubblewrap may take to say that it has begun."""

_GATED: Final = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")
"""What waits for `begin` before a command. bubblewrap would go on where we have died before it, with nobody
to end what it runs and no limits set; the line that this reads comes from `begin` alone.
"""

_READING: Final = ("/bin/sh", "-c", 'from=$1; shift; exec "$@" <"$from"', "sh")
"""What gives a command a file for its input, in place of the line that it was started by."""


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """What a command has inside.

    Args:
        workspace: where it works.
        network: it shares the machine's network.
        proxy: its one way out, where it has no network.
        guarded: what was found of the workspace a moment ago; None: nothing is known of it.
        masks: what to put out of its sight.
        stdin: a file that it reads its input from.
        readable: folders of ours that it may read.
        looks_at: it sees nothing of the workspace but that, under these names, and changes nothing.
    """

    workspace: Path
    network: bool = False
    proxy: "Proxy | None" = None
    guarded: Guarded | None = None
    masks: Masks = NO_MASKS
    stdin: int | None = None
    readable: tuple[Path, ...] = ()
    looks_at: Mapping[str, Place | None] | None = None


class Machinery(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox is made with: the program, our own device nodes, what is never to be seen."""

    bwrap: Bwrap
    machine: str
    devices: Path | None = None
    hidden: tuple[Path, ...] = ()
    max_processes: int = rlimits.MAX_PROCESSES

    def prepared(
        self,
        inside: Inside,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> "Prepared":
        """Return a command to start in one; see `Prepared`."""
        return Prepared(self, inside, argv, environment, tag)


class Prepared:
    """A command line to start, and what belongs to it.

    Start `argv` with `environment`, `stdin` and `pass_fds`, in the thread that will stay until it has
    ended (the sandbox ends with that thread); then call `begin`, and `close` when it has ended.
    """

    def __init__(
        self,
        machinery: Machinery,
        inside: Inside,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> None:
        """Prepare it: opens descriptors, and makes `.git` or `.midstream` where they are missing.

        `environment` is what it may be handed on of; what only looks gets exactly that. `tag` is all that
        the program itself gets for an environment, which anyone inside can read.

        Raises:
            OSError: something of it cannot be opened or made.
        """
        network, looks_at = inside.network, inside.looks_at
        guarded, workspace = inside.guarded or NOTHING, Path(os.path.realpath(inside.workspace))
        self.environment = dict(tag)
        self._max_processes = machinery.max_processes
        self._view = View()
        self._ours: list[int] = []
        self._group: Path | None = None
        self._held = Held(workspace, LOCKED if looks_at is None else ())
        try:
            self.stdin, self._gate = os.pipe()
            self._info, write = os.pipe()
            # bubblewrap holds both ends: with nobody to tell it would die, and leave its child waiting.
            told = os.open(f"/proc/self/fd/{write}", os.O_RDWR | O_CLOEXEC)
            os.close(write)
            blocked, self._go = os.pipe()
            self._ours += [self.stdin, self._gate, self._info, self._go]
            # Who knows what listens where nobody could look: no sockets of the Unix family then.
            flags = self._flags(
                machinery, network=network, unix=looks_at is None and not guarded.shortfall
            )
            self._view.descriptors += [told, blocked]
            if inside.proxy is not None:
                way = os.dup(inside.proxy.theirs.fileno())
                self._view.descriptors.append(way)
                argv = inside.proxy.inside(argv, way)
            if inside.stdin is not None:
                given = os.dup(inside.stdin)
                self._view.descriptors.append(given)
                argv = [*_READING, f"/dev/fd/{given}", *argv]
            flags += ["--info-fd", str(told), "--block-fd", str(blocked)]
            if looks_at is None:
                home = home_of(environment)
                add_system(self._view, network=network)
                if machinery.devices is not None:
                    add_devices(self._view, machinery.devices)
                add_home(self._view, home, environment, workspace)
                for folder in inside.readable:
                    self._view.add("--ro-bind-try", str(folder), str(folder))
                add_workspace(
                    self._view,
                    workspace,
                    home=home,
                    by_descriptor=machinery.bwrap.by_descriptor,
                    guarded=guarded,
                    hidden=machinery.hidden,
                    masks=inside.masks,
                )
                variables = variables_inside(environment, home, workspace)
            else:
                add_looked_at(
                    self._view,
                    workspace,
                    places=looks_at,
                    devices=machinery.devices,
                    hidden=machinery.hidden,
                )
                variables = dict(environment)
            # Last: what is mounted needs its place made first.
            self._view.add("--remount-ro", "/")
            said = [word for pair in variables.items() for word in ("--setenv", *pair)]
            end = ["--chdir", str(workspace), "--", *_GATED, *argv]
            self.argv = [
                machinery.bwrap.path,
                *flags,
                *self._view.arguments,
                *said,
                *end,
            ]
        except BaseException:
            self.close()
            raise

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Return the descriptors the program needs; it closes them before the command begins."""
        return tuple(self._view.descriptors)

    def _flags(self, machinery: Machinery, *, network: bool, unix: bool) -> list[str]:
        flags = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        flags += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
        # Without a terminal of its session nothing can be typed into the person's.
        flags.append("--new-session")
        # The thread that started it, not the process: whoever starts one stays (see `Child`).
        flags.append("--die-with-parent")
        # What the program is given for an environment anyone inside can read in /proc; what the command
        # gets is set by flags.
        flags += ["--clearenv", "--hostname", "sandbox"]
        if not network:
            flags.append("--unshare-net")
        if machinery.bwrap.is_new_enough():
            # A second lock beside the filter's: the filter is missing on machines without a table.
            flags.append("--disable-userns")
        program = filter_of(machinery.machine, unix=unix and not network)
        if program is not None:
            descriptor = self._read_end(program)
            self._view.descriptors.append(descriptor)
            flags += ["--seccomp", str(descriptor)]
        return flags

    def _read_end(self, data: bytes) -> int:
        """Return the reading end of a pipe that holds the data and no more."""
        read, write = os.pipe()
        try:
            os.write(write, data)
        finally:
            os.close(write)
        return read

    def begin(self, pid: int) -> int | None:
        """Set the limits on what was started and let it begin; return its first process' id.

        None: it ended at once; what it said tells why.
        """
        # It has its own by now. Ours would keep alive what they stand for, and be handed to other children.
        self._view.close()
        first = self._told_pid(pid)
        if first is None:
            return None
        # It waits at --block-fd until `_go` is written to: nothing has been forked that the limits and the
        # group would miss.
        with suppress(ProcessLookupError):
            rlimits.limit(first, max_processes=self._max_processes)
            if own_user() == 0:
                self._group = rlimits.begun_group(first, self._max_processes)
        with suppress(BrokenPipeError):
            os.write(self._go, b"!")
            os.write(self._gate, b"\n")
        self._ours.remove(self._gate)
        os.close(self._gate)
        return first

    def _told_pid(self, parent: int) -> int | None:
        if sys.platform == "win32":
            raise NotHere
        said = b""
        until = time.monotonic() + BEGIN_S
        waiting = select.poll()
        waiting.register(self._info, select.POLLIN)
        while True:
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                return None
            piece = os.read(self._info, 4096)
            said += piece
            # The object comes in pieces, and its pipe stays open (we hold the other end, too): that it is
            # whole is all that says it has come.
            with suppress(ValueError):
                return int(json.loads(said)["child-pid"])
            if not piece:
                return None

    def close(self) -> None:
        """Clear up; called when nothing of it runs any more, or when it was never started."""
        self._view.close()
        for descriptor in self._ours:
            os.close(descriptor)
        self._ours.clear()
        if self._group is not None:
            rlimits.end_group(self._group)
            self._group = None
        self._held.let_go()


def variables_inside(environment: Mapping[str, str], home: Path, workspace: Path) -> dict[str, str]:
    """Return the environment of a command inside, made of what it may be handed on of ours."""
    ours = {
        "PATH": safe_path(environment),
        "HOME": str(home),
        "TMPDIR": "/tmp",  # nosec B108  # the sandbox's own
        # What git keeps up to date while it only looks cannot be written.
        "GIT_OPTIONAL_LOCKS": "0",
    }
    with suppress(OSError):
        owner = os.lstat(workspace).st_uid
        if stat.S_ISDIR(os.lstat(workspace / ".git").st_mode) and owner != own_user():
            # git refuses a repository of somebody else; the person chose to work in this one.
            ours["GIT_CONFIG_COUNT"] = "1"
            ours["GIT_CONFIG_KEY_0"] = "safe.directory"
            ours["GIT_CONFIG_VALUE_0"] = str(workspace)
    return {**environment_inside(environment), **ours}


# --- folders that stand in for missing ones ----------------------------------------------------------
#
# `.git` and `.midstream` where there are none: empty folders, held while commands run.
#
# What is not there cannot be made read-only, and a command that could make a `.git` could put a hook into
# it. So an empty folder stands there meanwhile, with nothing mounted over it but itself, read-only. To git
# an empty `.git` is none. Every command that needs it holds a shared lock on it; whoever ends and finds
# nobody else's removes it. A folder that was left by a crash is taken for ours by its mode, and empty.

OURS: Final = 0o555
"""The mode of a folder we make. One that is empty and that not even its owner may write is ours."""


class Held:
    """The folders that stand in for missing ones, held. Made and let go in a thread."""

    def __init__(self, workspace: Path, names: Sequence[str]) -> None:
        self._held: list[tuple[Path, int]] = []
        try:
            for name in names:
                self._hold(workspace / name)
        except BaseException:
            self.let_go()
            raise

    def _hold(self, place: Path) -> None:
        # Between making, opening and locking others may remove it: then once more, but not for ever.
        for _ in range(100):
            with suppress(FileExistsError):
                place.mkdir(mode=OURS)
            try:
                if not _is_ours(place):
                    return
                descriptor = os.open(place, FOLDER)
            except FileNotFoundError:
                continue
            lock_file(descriptor, is_shared=True)
            # Between the two, the last holder may have removed it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), place.lstat()):
                    self._held.append((place, descriptor))
                    return
            os.close(descriptor)
        raise OSError(f"{place} comes and goes")

    def let_go(self) -> None:
        """Let go, and remove what nobody else holds."""
        while self._held:
            place, descriptor = self._held.pop()
            try:
                # Nobody else's shared lock is on it, and none can be until it is closed: it may go.
                is_free = try_lock_file(descriptor) and _is_ours(place)
                if is_free and os.path.samestat(os.fstat(descriptor), place.lstat()):
                    place.rmdir()
            except OSError:
                continue
            finally:
                os.close(descriptor)


def _is_ours(place: Path) -> bool:
    """Return whether it is a folder that only stands in for one; raises FileNotFoundError."""
    about = place.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o222:
        return False
    try:
        return not os.listdir(place)
    except PermissionError:
        return False
