"""macOS: `sandbox-exec`, with a profile that is made for each command.

A profile is a list of rules in brackets, and of those that fit the last one counts. So it reads downwards:
nothing; then what every program needs of the system; then the workspace; then what of that is closed
again. The kernel compares the real path of what is opened, so all paths in it are real ones.

What Linux does by namespaces has nothing to match it here. A process that leaves its session runs on
when the command has ended, and there is no limit on how many there are; nor can a command have its own
loopback, or reach some hosts and not others. Therefore the level is never better than `partial`: a
person is asked about each command, and it then runs in what there is.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from midstream.system.supervisor import DROPPED, Starting
from midstream.tools.sandbox.bwrap import stamp_of, trusted_program
from midstream.tools.sandbox.guarded_files import LOCKED, NOTHING
from midstream.tools.sandbox.launch import Inside, variables_inside
from midstream.tools.sandbox.mounts import (
    home_of,
    needed_beside,
    ours_within,
    secrets_of,
    tool_chains,
)

PLACES: Final = ("/usr/bin/sandbox-exec",)
"""Where the system has it. PATH is not asked: a workspace can put itself there."""

TRIED: Final = (
    *("cannot read outside", "cannot write outside", "cannot write .git and .midstream"),
    *("no TCP to the host", "clean environment", "devices cannot be changed"),
    *("no set-user-id files", "no inherited files"),
)
"""The probes that say something here; the others try what only Linux has."""

_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer"),
    *("/Library/Frameworks", "/Library/Java", "/Library/Perl", "/Library/Ruby"),
    *("/Applications/Xcode.app", "/opt/homebrew", "/opt/local", "/nix/store"),
    *("/private/etc/ssl", "/private/etc/paths.d", "/private/var/db/timezone"),
    *("/private/var/db/dyld", "/private/var/select", "/private/var/db/xcode_select_link"),
)
_SYSTEM_FILES: Final = (
    *("/", "/etc", "/var", "/tmp", "/private/etc/group", "/private/etc/hosts"),  # nosec B108  # links, read alone
    *("/private/etc/localtime", "/private/etc/passwd", "/private/etc/paths"),
    *("/private/etc/protocols", "/private/etc/services", "/private/etc/shells"),
    *("/dev", "/dev/random", "/dev/urandom"),
)
_DEVICES: Final = ("/dev/null", "/dev/zero")
_SERVICES: Final = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.logger")
"""What answers who a user is, and takes what a program has to log."""
_SERVICES_WITH_NETWORK: Final = (
    *("com.apple.SystemConfiguration.configd", "com.apple.trustd.agent"),
    *("com.apple.networkd", "com.apple.mDNSResponder"),
)


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may do, as real paths.

    Args:
        workspace: the folder it works in, writable.
        scratch: a folder of its own for what is temporary.
        readable: what it may read besides the system.
        locked: what of the workspace it cannot change, besides `LOCKED`; names from its root.
        unseen: what it can neither read nor change.
        network: whether it reaches any host.
    """

    workspace: str
    scratch: str
    readable: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    network: bool = False


def profile_of(allowed: Allowed) -> str:
    """Return the profile that allows this and no more."""
    root = allowed.workspace
    reached = (root, allowed.scratch, *allowed.readable, *_SYSTEM, *_SYSTEM_FILES, *_DEVICES)
    locked = tuple(f"{root}/{name}" for name in allowed.locked)
    rules = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork sysctl-read ipc-posix-sem)",
        "(allow signal process-info* (target same-sandbox))",
        _rule("allow mach-lookup", "global-name", _SERVICES),
        # Whoever opens a path looks at each folder on the way; not at what else is in it.
        _rule("allow file-read-metadata", "literal", _above(reached)),
        _rule("allow file-read*", "literal", _SYSTEM_FILES),
        _rule("allow file-read*", "subpath", (*_SYSTEM, *allowed.readable)),
        _rule("allow file-read* file-write-data file-ioctl", "literal", _DEVICES),
        _rule("allow file-read* file-write*", "subpath", (root, allowed.scratch)),
        # Whoever runs such a file would run what a model wrote as its owner.
        "(deny file-write-setugid)",
        # By a pattern, not a path: where there is none yet, `.GIT` would be one to a disk that takes
        # both spellings for the same.
        _rule("deny file-write*", "regex", (_spelled(root, name) for name in LOCKED)),
        _rule("deny file-write*", "subpath", locked),
        # A folder that could be moved away would take what is locked in it along, to a name that no
        # rule is about.
        _rule("deny file-write-unlink", "literal", (root, *_between(root, locked))),
        _rule("deny file-write-unlink", "literal", _between(root, allowed.unseen)),
        _rule("deny file-read* file-write*", "subpath", allowed.unseen),
    ]
    if allowed.network:
        rules += [
            "(allow network*)",
            _rule("allow mach-lookup", "global-name", _SERVICES_WITH_NETWORK),
            _rule("allow file-read*", "literal", ("/private/etc/resolv.conf",)),
        ]
    return "".join(f"{rule}\n" for rule in rules if rule)


def _rule(what: str, kind: str, values: Iterable[str]) -> str:
    """Return a rule about some paths or names, "" where there are none: it would be about everything."""
    filters = "".join(f"\n  ({kind} {_quoted(value)})" for value in dict.fromkeys(values))
    return f"({what}{filters})" if filters else ""


def _quoted(text: str) -> str:
    """Return a string of the profile's language. Within one only these two mean anything."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _spelled(root: str, name: str) -> str:
    """Return a pattern for a name below a folder, and all in it, however its letters are written."""
    plain = "".join(f"\\{char}" if char in "\\^$.[]|()*+?{}" else char for char in root)
    either = "".join(f"[{char}{char.upper()}]" if char.isalpha() else f"\\{char}" for char in name)
    return f"^{plain}/{either}(/|$)"


def _above(paths: Iterable[str]) -> list[str]:
    return sorted({str(above) for path in paths for above in Path(path).parents})


def _between(root: str, paths: Iterable[str]) -> list[str]:
    """Return the folders on the way from a workspace's root down to each path."""
    return [each for each in _above(paths) if each.startswith(f"{root}/")]


class Seatbelt(msgspec.Struct, frozen=True, kw_only=True):
    """A trusted `sandbox-exec`, and what no command sees. `stamp` changes when the file does."""

    path: str
    stamp: str
    hidden: tuple[Path, ...] = ()

    def prepared(
        self,
        inside: Inside,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> "Sealed":
        """Return a command to start in there.

        Raises:
            OSError: it cannot be prepared.
        """
        if inside.proxy is not None:
            raise OSError(
                "in the sandbox of macOS a command reaches any host or none: name no hosts, or true"
            )
        scratch = os.path.realpath(tempfile.mkdtemp(prefix="midstream-sandbox-"))
        try:
            root, home = os.path.realpath(inside.workspace), home_of(environment)
            guarded, masks = inside.guarded or NOTHING, inside.masks
            real = Path(root)
            doors = (*masks.names, *guarded.sockets, *guarded.pipes, *secrets_of(os.listdir(root)))
            beside = needed_beside(real, home, has_history=".git" not in masks.names)
            chains = (found for found, _ in tool_chains(home, environment, real))
            allowed = Allowed(
                workspace=root,
                scratch=scratch,
                readable=(*chains, *beside, *map(str, inside.readable)),
                locked=(*guarded.locked, *guarded.installed),
                unseen=(
                    *(f"{root}/{name}" for name in doors),
                    *ours_within(real, self.hidden),
                ),
                network=inside.network,
            )
            variables = variables_inside(environment, home, real)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return Sealed(
            [self.path, "-p", profile_of(allowed), *argv],
            {**variables, "TMPDIR": scratch, **tag},
            scratch,
            DROPPED if inside.stdin is None else inside.stdin,
        )


class Sealed(Starting):
    """A command line to start, with its profile, held from its first step on."""

    def __init__(
        self, argv: list[str], environment: dict[str, str], scratch: str, stdin: int = DROPPED
    ) -> None:
        self.stdin = stdin
        self.argv = argv
        self.environment = environment
        self._scratch = scratch

    def close(self) -> None:
        """Take its scratch folder away, when nothing of it runs any more."""
        shutil.rmtree(self._scratch, ignore_errors=True)


def found_seatbelt(places: tuple[str, ...] = PLACES) -> Seatbelt | str:
    """Return the system's `sandbox-exec`, or why there is none, in words for a person."""
    found = trusted_program(places, "sandbox-exec is not there.")
    return found if isinstance(found, str) else Seatbelt(path=str(found), stamp=stamp_of(found))
