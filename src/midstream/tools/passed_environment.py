"""What of our environment a command gets: a list of harmless names, in the sandbox and outside of it."""

import re
from collections.abc import Mapping
from typing import Final

NAMES: Final = frozenset(
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


def inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of a command's environment it gets in a sandbox, where some of it leads nowhere."""
    return {
        name: value
        for name, value in environment.items()
        if name in SET or (_is_passed_on(name) and name not in _NOT_INSIDE)
    }


def _is_passed_on(name: str) -> bool:
    return (name in NAMES or name.startswith("LC_")) and not _SECRET.search(name)
