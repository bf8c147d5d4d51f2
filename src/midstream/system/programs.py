"""Finding programs where no workspace can have put them, and what of our environment a command gets."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final


def found_program(name: str, workspace: Path) -> str | None:
    """Return the absolute path of a program on the PATH, None where there is none.

    Folders of the PATH that are relative or lie in the workspace do not count: what stands there is
    the workspace's, or whatever an agent has written.
    """
    for folder in path_outside(os.environ.get("PATH", os.defpath), workspace).split(os.pathsep):
        path = os.path.join(folder, name)
        is_file = bool(folder) and os.path.isfile(path) and os.access(path, os.X_OK)
        if is_file and not _is_inside(path, workspace):
            return path
    return None


def path_outside(path: str, workspace: Path) -> str:
    """Return a PATH without its folders that are relative or lie in the workspace."""
    places = (place for place in path.split(os.pathsep) if os.path.isabs(place))
    return os.pathsep.join(place for place in places if not _is_inside(place, workspace))


def _is_inside(path: str, workspace: Path) -> bool:
    root = os.path.realpath(workspace)
    return root != os.sep and Path(os.path.realpath(path)).is_relative_to(root)


# --- what of our environment a command gets, in the sandbox and outside of it -------------------

PASSED_ON: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME"),
        *("NVM_DIR", "PYENV_ROOT", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR", "CI"),
    }
)
"""The names that are passed on, besides `LC_*`."""

SET: Final = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # Else what a Python program prints would come all at once, when it has ended.
    "PYTHONUNBUFFERED": "1",
}
"""What every command is told."""

_NOT_INSIDE: Final = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR"})
"""What names places that are not to be seen in a sandbox."""

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a command gets: nothing secret."""
    return {**{name: environment[name] for name in environment if _is_passed_on(name)}, **SET}


def environment_inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of a command's environment it gets in a sandbox, where some of it leads nowhere."""
    return {
        name: value
        for name, value in environment.items()
        if name in SET or (_is_passed_on(name) and name not in _NOT_INSIDE)
    }


def _is_passed_on(name: str) -> bool:
    return (name in PASSED_ON or name.startswith("LC_")) and not _SECRET.search(name)
