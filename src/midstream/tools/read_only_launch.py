"""Commands that only look, started so that they can do nothing else: what is left to the edge.

`midstream.safety.read_only_commands` says by a command's words how to start it. Here the file system is
asked whether that holds: the program is the system's, each path is a plain file or folder inside, and
git's repository is the workspace's own, whose configuration names nothing that git would start.

What was looked at may be something else by the time the program opens it. So the program is given what
was judged, not its name: in the sandbox, a view with nothing in it but that, opened without following a
link; without one, links of ours to descriptors opened so (`Opened`). What finds its own way through
folders only looks in the sandbox.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.portable import FOLDER, O_NOCTTY, O_NONBLOCK
from midstream.language.errors import MidstreamError, UserMistake
from midstream.safety import quiet_git, read_only_commands
from midstream.safety.capability import Capability
from midstream.safety.rules import Rule
from midstream.system.git import ceiling, git_output, not_own
from midstream.system.hard_links import is_another_name
from midstream.system.openat2 import opened
from midstream.system.supervisor import DROPPED, Starting
from midstream.system.workspace_paths import Place, is_worktree, locate, requests_for

_GIT_CHECK_S: Final = 5.0
_FILE: Final = os.O_RDONLY | O_NONBLOCK | O_NOCTTY


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How to start it, and what it reads.

    `left_out` are the rules, as texts, of whose files it shows nothing. `places` are what it
    is given, by the paths it knows them by; the workspace itself is "."; one that is not there is None.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    reads: tuple[Capability, ...]
    places: dict[str, Place | None]
    is_boxed: bool
    left_out: tuple[str, ...] = ()


def looking(
    argv: tuple[str, ...], workspace: Path, *, is_boxed: bool, kept: Sequence[Rule] = ()
) -> Start | None:
    """Return how to start a command that only looks, None where it may do more. Blocks: it may ask git.

    `is_boxed`: it is started in the sandbox. `kept`: the rules on what it may not read without naming it.

    Raises:
        UserMistake: it is git, and what it would show is not the workspace's own repository.
    """
    known = read_only_commands.prepared(argv)
    if known is None:
        return None
    program = _program(known.programs, workspace)
    if program is None:
        return None
    known, left_out = _leaving_out(known, kept)
    reads: list[Capability] = []
    places: dict[str, Place | None] = {}
    for path in known.paths:
        if not _is_plain(path, workspace):
            return None
        place = locate(workspace, path)
        reads += requests_for(place, "read")
        is_there = os.path.lexists(place.path)
        places[os.path.normpath(path)] = place if is_there else None
    name, arguments = argv[0], known.arguments
    environment = dict(known.environment)
    if known.needs_git_check and is_worktree(Path(os.path.realpath(workspace))):
        return None  # its repository lies elsewhere: it is a command like others, in the sandbox
    if known.needs_git_check:
        why = not_own(workspace)
        if why:
            raise UserMistake(
                f"git was not started: {why}.",
                hint="It looks into the workspace's own repository alone: start midstream in that "
                "one's root, or say sandbox: false, which a person is asked about.",
            )
        if not _is_quiet_repository(program, workspace):
            return None
        environment |= ceiling(workspace)
    if known.needs_git_check or name == "rg" or (name == "ls" and not places):
        whole = Place(root=Path(os.path.realpath(workspace)), parts=())
        places = {**places, ".": whole} if is_boxed or name == "ls" else places
    if not is_boxed:
        if known.reads_below and (known.needs_git_check or not _are_files(places)):
            return None
        if "." in places and len(places) > 1:
            return None
        arguments = (*_FOLLOWS.get(name, ()), *arguments)
    return Start(
        argv=(program, *arguments),
        environment=environment,
        reads=tuple(dict.fromkeys(reads)),
        places=places,
        is_boxed=is_boxed,
        left_out=left_out,
    )


def _leaving_out(
    known: read_only_commands.Prepared, kept: Sequence[Rule]
) -> tuple[read_only_commands.Prepared, tuple[str, ...]]:
    """Return how to start it so that as many of the rules hold as can, and these."""
    exact = [rule for rule in kept if rule.globs]
    less = read_only_commands.leaving_out(known, [glob for rule in exact for glob in rule.globs])
    return (known, ()) if less is None else (less, tuple(rule.text for rule in exact))


_FOLLOWS: Final = {"ls": ("-H",), "stat": ("-L",)}
"""What has a program that tells of names tell of what our links lead to."""


def _are_files(places: Mapping[str, Place | None]) -> bool:
    """Return whether something is named, and all of it is files."""
    return bool(places) and all(place is None or place.path.is_file() for place in places.values())


class Opened(Starting):
    """A command that only looks, outside a sandbox: it gets what was judged by descriptors.

    They stand behind links in a folder of ours in which it works, called as it calls the files; git gets
    its repository so. What has become something else meanwhile is not there.
    """

    stdin = DROPPED

    def __init__(
        self,
        start: Start,
        workspace: Path,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> None:
        self.argv = list(argv)
        self.environment = {**environment, **tag}
        self._handles: list[int] = []
        self._folder: str | None = None
        try:
            self._open(start, workspace)
        except BaseException:
            self.close()
            raise

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Return the descriptors it gets."""
        return tuple(self._handles)

    def _open(self, start: Start, workspace: Path) -> None:
        if "GIT_CEILING_DIRECTORIES" in start.environment:
            git = Place(root=Path(os.path.realpath(workspace)), parts=(".git",))
            handle = self._handle(git)
            if start.argv[1 + len(quiet_git.OPTIONS)] != "status" and _BY_NUMBER == "/proc/self/fd":
                # Without a work tree git keeps to the name it is given.
                self.environment["GIT_DIR"] = f"{_BY_NUMBER}/{handle}"
                self.environment["GIT_IMPLICIT_WORK_TREE"] = "0"
            return
        if not start.places:
            return
        whole = start.places.get(".")
        here = "" if whole is None else f"{_BY_NUMBER}/{self._handle(whole)}"
        if whole is None:
            self._folder = here = tempfile.mkdtemp(prefix="midstream-look-")
            for name, place in start.places.items():
                with suppress(OSError):
                    if place is not None:
                        link = os.path.join(here, name)
                        os.makedirs(os.path.dirname(link), exist_ok=True)
                        os.symlink(f"{_BY_NUMBER}/{self._handle(place)}", link)
        self.argv = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', here, *self.argv]

    def _handle(self, place: Place) -> int:
        """Open what was judged, if that is a plain file or folder still; OSError where it is not."""
        root = os.open(place.root, FOLDER)
        try:
            handle = opened(root, place.parts, _FILE)
        finally:
            os.close(root)
        self._handles.append(handle)
        mode = os.fstat(handle).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(f"{place.name} is no file or folder")
        return handle

    def close(self) -> None:
        """Close the descriptors, and take the folder of links away."""
        while self._handles:
            os.close(self._handles.pop())
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


_BY_NUMBER: Final = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def _program(places: tuple[str, ...], workspace: Path) -> str | None:
    root = os.path.realpath(workspace)
    for place in places:
        real = os.path.realpath(place)
        if os.path.isfile(real) and os.access(real, os.X_OK):
            return None if real.startswith(f"{root}/") else place
    return None


def _is_plain(path: str, workspace: Path) -> bool:
    try:
        place = locate(workspace, path)
        mode = place.path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (MidstreamError, OSError):
        return False
    if is_another_name(place.root, place.parts):
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_quiet_repository(program: str, workspace: Path) -> bool:
    """Return whether the settings of the workspace's repository start nothing."""
    listed = git_output(workspace, *quiet_git.CHECK, program=program, timeout_s=_GIT_CHECK_S)
    return listed is not None and not quiet_git.unknown_keys(listed.decode("utf-8", "replace"))
