"""What a sandboxed command sees of the machine: all of it built up from nothing, never all but something.

The system is read-only. The home folder is empty but for the tool chains developers keep there, which
are listed by name: a home holds keys and tokens in places nobody can list. The workspace is writable.
What a program outside would run or obey later is not: its `.git` and `.midstream`, the editor's, CI's and
hooks' files, a virtual environment. A `.git` further down could simply be moved away together with its
folder, so each folder on the way down to it is made a mount, which cannot be renamed.

What lies in the workspace is mounted by descriptor, opened without following a link: a command that is
still running there could put a link in its place meanwhile.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from midstream.config.portable import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH, NotHere, own_user
from midstream.config.private_files import make_private
from midstream.safety.protected import classify
from midstream.system.workspace_paths import Place
from midstream.tools.sandbox.bwrap import others_reach
from midstream.tools.sandbox.guarded_files import LOCKED, Guarded
from midstream.tools.sandbox.masks import NO_MASKS, Masks, is_folder

_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC: Final = (
    *("alternatives", "crypto-policies", "fonts", "group", "hosts", "java-11-openjdk"),
    *("java-17-openjdk", "java-21-openjdk", "java-25-openjdk", "ld.so.cache", "localtime"),
    *("mime.types", "nsswitch.conf", "os-release", "passwd", "pki/ca-trust/extracted"),
    *("pki/tls/cert.pem", "pki/tls/certs", "services", "ssl/cert.pem", "ssl/certs"),
    *("ssl/openssl.cnf", "static"),
)
"""Each costs a mount, half a millisecond of a busy machine."""
_ETC_WITH_NETWORK: Final = ("resolv.conf",)
_OUTSIDE_USR: Final = ("/nix/store", "/run/current-system", "/home/linuxbrew/.linuxbrew", "/snap")

_TOOL_CHAINS: Final = (
    *(".pyenv", ".rbenv", ".asdf", ".nvm", ".volta", ".rustup", ".cargo/bin", ".cargo/registry"),
    *(".cargo/git", ".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools"),
    *(".local/share/pipx/venvs", ".local/pipx/venvs", ".local/share/mise/installs"),
    *(".local/share/mise/shims", ".local/share/pnpm", ".local/share/fnm", ".fnm", ".bun/bin"),
    *(".deno/bin", ".sdkman/candidates", ".conda", "miniconda3", "anaconda3", "miniforge3"),
    *(
        "mambaforge",
        "micromamba",
        "go/bin",
        "go/pkg/mod",
        ".local/go",
        ".ghcup/bin",
        ".juliaup/bin",
    ),
    *(".dotnet", ".npm-global"),
)
"""Below the home folder, read-only. No folder that also holds credentials, such as `.cargo` itself."""

_SYSTEM: Final = frozenset(
    {*("usr", "etc", "proc", "sys", "dev", "boot"), *("System", "Library", "Applications")}
)
"""Folders of the system's, which are nobody's workspace."""

_BUILT_UP: Final = ("proc", "sys", "dev")

_NOT_HIDDEN: Final = frozenset({".npmrc"})
"""A project's own is settings, and `npm` wants it."""
_VENVS: Final = (".venv", "venv", "env")

_PROC_HIDDEN: Final = (
    *("kcore", "kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "timer_list", "vmallocinfo"),
)
"""What the kernel shows to root alone: also to root without any capability, as long as it may open it."""
_DEVICES: Final = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}

_TMP_BYTES: Final = 2 << 30
_HOME_BYTES: Final = 1 << 30


class View:
    """The arguments that build a view up, and the descriptors they name; close them when it runs."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.descriptors: list[int] = []

    def add(self, *words: str) -> None:
        """Add arguments as they are."""
        self.arguments += words

    def add_by_descriptor(self, flag: str, descriptor: int, place: str) -> None:
        """Mount what a descriptor stands for; it is closed with the view."""
        self.descriptors.append(descriptor)
        self.arguments += [flag, str(descriptor), place]

    def close(self) -> None:
        """Close the descriptors; called once the program has its own."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()


def unfit(workspace: Path, home: Path) -> str:
    """Return why a folder cannot be a sandbox's workspace, "" when it can."""
    real = Path(os.path.realpath(workspace))
    if not real.is_dir():
        return f"{workspace} is not a folder"
    if len(real.parts) < 3 or real.parts[1] in _SYSTEM:
        return f"{real} belongs to the system"
    if _holds(real, home):
        return f"{real} holds the whole home folder"
    for name in LOCKED:
        if (real / name).is_symlink():
            return f"{name} is a link, which cannot be made read-only"
    return ""


def home_of(environment: Mapping[str, str]) -> Path:
    """Return the home folder inside: the person's own path, with next to nothing in it."""
    home = environment.get("HOME", "")
    path = Path(os.path.realpath(home)) if os.path.isabs(home) else Path("/tmp/home")  # nosec B108  # the sandbox's own
    system = len(path.parts) < 2 or path.parts[1] in (*_BUILT_UP, "usr", "etc", "bin", "lib")
    return Path("/tmp/home") if system else path  # nosec B108  # the sandbox's own


def add_system(view: View, *, network: bool) -> None:
    """Add the system: programs, libraries, the harmless part of /etc, processes and devices."""
    _add_programs(view)
    for name in (*_ETC, *(_ETC_WITH_NETWORK if network else ())):
        place = f"/etc/{name}"
        real = os.path.realpath(place)
        if real.startswith("/usr/"):
            view.add("--symlink", real, place)
        elif os.access(place, os.R_OK):
            view.add("--ro-bind", real, place)
    for place in _OUTSIDE_USR:
        if os.path.isdir(place):
            view.add("--ro-bind", os.path.realpath(place), place)
    view.add("--proc", "/proc")
    for name in _PROC_HIDDEN:
        if own_user() == 0 and os.path.exists(f"/proc/{name}"):
            view.add("--ro-bind", "/dev/null", f"/proc/{name}")
    # bwrap leaves /proc/sys writable to root: the kernel asks who owns the file, not for capabilities.
    view.add("--remount-ro", "/proc")
    view.add("--dev", "/dev")
    view.add("--perms", "1777", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp")  # nosec B108  # the sandbox's own
    view.add("--symlink", "../tmp", "/var/tmp", "--dir", "/run")  # nosec B108  # the sandbox's own


def _add_programs(view: View) -> None:
    view.add("--ro-bind", "/usr", "/usr")
    for place in _MERGED:
        if os.path.islink(place):
            view.add("--symlink", os.readlink(place), place)
        elif os.path.isdir(place):
            view.add("--ro-bind", place, place)


def add_devices(view: View, copies: Path) -> None:
    """Put our own device nodes in place of the host's, whose mode root could change from inside."""
    for name in _DEVICES:
        view.add("--dev-bind", str(copies / name), f"/dev/{name}")


def made_devices(folder: Path) -> bool:
    """Make device nodes of our own in a folder, or see that they are as made; False: not possible.

    Nor is it where others than root could put another folder, or links, in its place: root would make
    what they like writable, or show it inside. `folder` is a real path.
    """
    if sys.platform == "win32":
        raise NotHere
    try:
        make_private(folder)
        if others_reach(folder):
            return False
        for name, (major, minor) in _DEVICES.items():
            _make_device(folder / name, os.makedev(major, minor))
        # Where devices are not served, only opening one tells.
        os.close(os.open(folder / "null", os.O_WRONLY | O_CLOEXEC))
    except OSError:
        return False
    return True


def _make_device(path: Path, device: int) -> None:
    if sys.platform == "win32":
        raise NotHere
    with suppress(FileNotFoundError):
        about = path.lstat()
        right = stat.S_ISCHR(about.st_mode) and about.st_rdev == device
        if right and stat.S_IMODE(about.st_mode) == 0o666 and about.st_uid == own_user():
            return
        path.unlink()
    os.mknod(path, stat.S_IFCHR | 0o666, device)
    path.chmod(0o666)


def add_home(view: View, home: Path, environment: Mapping[str, str], workspace: Path) -> None:
    """Add an empty home with the tool chains in it, read-only, and those PATH leads to elsewhere."""
    view.add("--size", str(_HOME_BYTES), "--tmpfs", str(home))
    for real, place in tool_chains(home, environment, workspace):
        view.add("--ro-bind", real, place)


def tool_chains(
    home: Path, environment: Mapping[str, str], workspace: Path
) -> Iterator[tuple[str, str]]:
    """Yield the folders of the tool chains there are: the real one, and where it is looked for."""
    seen: list[Path] = []
    for place in (*_chains(home, environment), *_chains_in_path(home, environment)):
        real = os.path.realpath(place)
        # What lies in one that is there already needs no mount, unless a link leads elsewhere from it.
        if any(_holds(each, Path(place)) for each in seen if place == real):
            continue
        if not os.path.isdir(real) or not os.access(real, os.R_OK | os.X_OK):
            continue
        if _is_too_wide(Path(real), home, workspace):
            continue
        seen.append(Path(place))
        yield real, place


def _chains(home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    for name in _TOOL_CHAINS:
        yield str(home / name)
    for name, below in (
        ("PYENV_ROOT", ""),
        ("RUSTUP_HOME", ""),
        ("NVM_DIR", ""),
        ("CARGO_HOME", "bin"),
    ):
        if os.path.isabs(environment.get(name, "")):
            yield os.path.normpath(os.path.join(environment[name], below))
    for name in ("JAVA_HOME", "CONDA_PREFIX", "VIRTUAL_ENV"):
        place = environment.get(name, "")
        if os.path.isabs(place) and _is_installation(place):
            yield os.path.normpath(place)
    yield from _pythons(environment)


def _pythons(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the prefixes of our own Python and of the one behind the active environment."""
    for prefix in {sys.prefix, sys.base_prefix}:
        if _is_installation(prefix):
            yield prefix
    active = environment.get("VIRTUAL_ENV", "")
    if os.path.isabs(active):
        behind = os.path.dirname(os.path.dirname(os.path.realpath(f"{active}/bin/python")))
        if _is_installation(behind):
            yield behind


def python_behind(venv: Path) -> str | None:
    """Return the prefix of the Python a virtual environment was made with, None where there is none.

    The link is a stranger's: where it leads to has to look like an installation of Python.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(venv / "bin" / "python")))
    return prefix if _is_python(prefix) else None


def _is_installation(place: str) -> bool:
    return os.path.isdir(f"{place}/bin") and os.path.isdir(f"{place}/lib")


def _is_python(prefix: str) -> bool:
    try:
        versions = [name for name in os.listdir(f"{prefix}/lib") if name.startswith("python3.")]
    except OSError:
        return False
    return any(os.path.isfile(f"{prefix}/lib/{name}/os.py") for name in versions)


def _chains_in_path(home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    for entry in environment.get("PATH", "").split(":"):
        place = os.path.normpath(entry)
        if not os.path.isabs(entry) or place.startswith(("/usr/", "/bin", "/sbin")):
            continue
        parent, name = os.path.split(place)
        # What stands right below home is for more than programs: `.local` has keyrings, too.
        is_wide = Path(parent) == home or Path(parent).parent == home or parent.count("/") < 2
        if name in ("bin", "sbin") and not is_wide and _is_installation(parent):
            yield parent
        elif place != str(home):
            yield place


def _is_too_wide(place: Path, home: Path, workspace: Path) -> bool:
    covers = _holds(place, home) or _holds(place, workspace) or _holds(workspace, place)
    return covers or len(place.parts) < 3 or place.parts[1] in (*_BUILT_UP, "etc", "run")


def _holds(outer: Path, inner: Path) -> bool:
    return inner == outer or outer in inner.parents


def safe_path(environment: Mapping[str, str]) -> str:
    """Return PATH without what is relative: that would look for programs wherever one stands."""
    entries = [each for each in environment.get("PATH", "").split(":") if os.path.isabs(each)]
    return ":".join(dict.fromkeys(entries)) or "/usr/local/bin:/usr/bin:/bin"


# --- for what only looks ----------------------------------------------------------------------


def _hide_ours(view: View, workspace: Path, hidden: Iterable[Path]) -> None:
    for ours in ours_within(workspace, hidden):
        view.add("--tmpfs", ours)


def ours_within(workspace: Path, hidden: Iterable[Path]) -> Iterator[str]:
    """Yield the folders of ours that lie in a workspace."""
    for ours in {Path(os.path.realpath(each)) for each in hidden}:
        if _holds(workspace, ours) and ours != workspace and ours.exists():
            yield str(ours)


def add_looked_at(
    view: View,
    workspace: Path,
    *,
    places: Mapping[str, Place | None],
    devices: Path | None,
    hidden: Iterable[Path],
) -> None:
    """Add next to nothing: programs, and of the workspace what was judged, opened without following a
    link and read-only, under the names it is asked for by. `hidden` is as for `add_workspace`.
    """
    _add_programs(view)
    for name in ("ld.so.cache", "localtime"):
        real = os.path.realpath(f"/etc/{name}")
        if os.path.isfile(real):
            view.add("--ro-bind", real, f"/etc/{name}")
    null = "/dev/null" if devices is None else str(devices / "null")
    view.add("--dev-bind", null, "/dev/null", "--dir", str(workspace))
    root = os.open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC)
    try:
        for name, place in sorted(places.items()):
            descriptor = None if place is None else _opened(root, "/".join(place.parts))
            if descriptor is not None:
                view.add_by_descriptor(
                    "--ro-bind-fd", descriptor, os.path.normpath(workspace / name)
                )
    finally:
        os.close(root)
    if "." in places:
        _hide_ours(view, workspace, hidden)


# --- the workspace ----------------------------------------------------------------------------


def add_workspace(
    view: View,
    workspace: Path,
    *,
    home: Path,
    by_descriptor: bool,
    guarded: Guarded,
    hidden: Iterable[Path],
    masks: Masks = NO_MASKS,
) -> None:
    """Add the workspace, writable, and what of it is not.

    `guarded` is what of it to lock, and to shut, `masks` what to put out of sight. `hidden` are folders of
    ours, not to be seen wherever they are.

    Raises:
        OSError: something cannot be put out of sight.
    """
    # bubblewrap mounts in the order of its arguments, and what is mounted later covers what was before.
    place = str(workspace)
    there = sorted(os.listdir(workspace))
    view.add("--bind", place, place)
    if by_descriptor:
        root = os.open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC)
        try:
            _lock(view, root, workspace, (*guarded.locked, *guarded.installed), masks.above)
        finally:
            os.close(root)
    for name in LOCKED:
        view.add("--ro-bind", str(workspace / name), str(workspace / name))
    for name in (*guarded.sockets, *guarded.pipes):
        # bubblewrap would make what has gone meanwhile.
        if os.path.lexists(workspace / name):
            view.add("--ro-bind", "/dev/null", str(workspace / name))
    _hide(view, workspace, there)
    for folder in needed_beside(workspace, home, has_history=".git" not in masks.names):
        view.add("--ro-bind", folder, folder)
    _hide_ours(view, workspace, hidden)
    # Last: what is mounted above one later would show it again.
    _mask(view, workspace, masks)


def needed_beside(workspace: Path, home: Path, *, has_history: bool) -> Iterator[str]:
    """Yield the folders elsewhere that a workspace does not work without: where the repository of a
    worktree is, and the Python behind a virtual environment.
    """
    yield from _worktree(workspace) if has_history else ()
    for name in _VENVS:
        prefix = python_behind(workspace / name)
        if prefix is None or prefix.startswith("/usr"):
            continue
        if not _is_too_wide(Path(prefix), home, workspace):
            yield prefix


def _lock(
    view: View, root: int, workspace: Path, names: Iterable[str], stay: Iterable[str]
) -> None:
    names = tuple(names)
    # A repository's folder stays where it is. Others may be moved, as people do: that is told.
    repositories = Masks(names=tuple(name for name in names if name.endswith("/.git")))
    # First: what is mounted above a name later would hide its own mount.
    for folder in sorted({*repositories.above, *stay}):
        _mount(view, "--bind-fd", root, workspace, folder)
    for name in sorted(names):
        _mount(view, "--ro-bind-fd", root, workspace, name)


def _mask(view: View, workspace: Path, masks: Masks) -> None:
    """Put names out of sight: behind an empty folder, or a device that cannot be opened."""
    for name in masks.names:
        place = str(workspace / name)
        match is_folder(workspace / name):
            case True:
                view.add("--perms", "0555", "--tmpfs", place, "--remount-ro", place)
            case False:
                view.add("--ro-bind", "/dev/null", place)
            case None:
                raise OSError(f"{name} is not what it was a moment ago")


def _mount(view: View, flag: str, root: int, workspace: Path, name: str) -> None:
    descriptor = _opened(root, name)
    if descriptor is not None:
        view.add_by_descriptor(flag, descriptor, str(workspace / name))


def _opened(root: int, name: str) -> int | None:
    """Return a descriptor of what is there, None for a link on the way, or nothing."""
    # By hand and not by `opened`: what is wanted is a place (O_PATH), files and folders alike.
    here = os.dup(root)
    for part in PurePosixPath(name).parts:
        try:
            below = os.open(part, O_PATH | O_NOFOLLOW | O_CLOEXEC, dir_fd=here)
        except OSError:
            return None
        finally:
            os.close(here)
        here = below
    mode = os.fstat(here).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return here
    os.close(here)
    return None


def secrets_of(names: Iterable[str]) -> Iterator[str]:
    """Yield those names of a workspace's root that no command sees: what holds secrets."""
    for name in names:
        if classify((name,), "read").standing == "secret" and name not in _NOT_HIDDEN:
            yield name


def _hide(view: View, workspace: Path, names: Iterable[str]) -> None:
    """Hide what holds secrets: behind a device that cannot be opened, or an empty folder."""
    for name in secrets_of(names):
        with suppress(OSError):
            mode = (workspace / name).lstat().st_mode
            if stat.S_ISREG(mode):
                view.add("--ro-bind", "/dev/null", str(workspace / name))
            elif stat.S_ISDIR(mode):
                view.add("--tmpfs", str(workspace / name))


def _worktree(workspace: Path) -> list[str]:
    """Return the folders a worktree's `.git` file stands for, where they stand for this one, too.

    The file is a stranger's: only a folder that points back is shown, and the repository it is in.
    """
    file = workspace / ".git"
    try:
        if file.is_symlink() or not file.is_file():
            return []
        words = file.read_text("utf-8")[:4096].strip()
        own = Path(os.path.realpath(workspace / words.removeprefix("gitdir:").strip()))
        back = (own / "gitdir").read_text("utf-8")[:4096].strip()
        common = Path(os.path.realpath(own / (own / "commondir").read_text("utf-8")[:4096].strip()))
    except (OSError, UnicodeDecodeError, ValueError):
        return []
    points_back = os.path.realpath(back) == os.path.realpath(file)
    is_repository = (common / "HEAD").is_file() and (common / "objects").is_dir()
    return [str(common)] if points_back and is_repository and _holds(common, own) else []
