"""Where a person's settings and midstream's own state live."""

import getpass
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

CONFIG_HOME = "MIDSTREAM_CONFIG_HOME"
STATE_HOME = "MIDSTREAM_STATE_HOME"
JOURNAL_VARIABLE = "MIDSTREAM_JOURNAL"
"""The environment variable that says where the journal is: a file, or a database of PostgreSQL."""
BLOBS_VARIABLE = "MIDSTREAM_BLOBS"
"""The environment variable that says where a database's large contents are: a folder, or s3://..."""
ADDRESS_MARK = "://"
"""What an address has, and the path of a file has not."""

HOST = "MIDSTREAM_HOST"
"""The environment variable that names this machine to others: a container's own name changes."""
USER = "MIDSTREAM_USER"
"""The environment variable that says for whom runs are begun here."""

APP = "midstream"
WORKSPACE_FOLDER = ".midstream"
OTHERS_FOLDER = ".claude"
"""The folder of another program, whose commands and skills are read, too."""
SETTINGS = "application.json"
PLUGINS = "plugins"
"""The folder of plugins in a person's own."""
PLUGIN_PARTS = ("commands", "skills", "roles", "workflows", "hooks")
"""The folders of a plugin that are used."""

BUILT_IN = Path(__file__).parent / "defaults"
"""The folder of what ships with midstream, laid out like a person's own."""


def user_config_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's application.json, roles/ and workflows/. It may not exist."""
    return _place(environ, CONFIG_HOME, "XDG_CONFIG_HOME", ".config", "user_config_dir")


def user_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of history, trust and journal. It may not exist."""
    return _place(environ, STATE_HOME, "XDG_STATE_HOME", ".local/state", "user_state_dir")


def journal_file(environ: Mapping[str, str], state: Path) -> Path:
    """Return the file that keeps the runs: in this folder of state, unless a variable says where.

    Where a database keeps them it is a name beside which sockets of this machine are, and no file.
    """
    if journal_database(environ):
        return database_place(state)
    named = environ.get(JOURNAL_VARIABLE)
    return Path(named).absolute() if named else state / "journal.db"


def journal_database(environ: Mapping[str, str]) -> str:
    """Return the address of the database that keeps the runs, "" where a file does. It has a password."""
    named = environ.get(JOURNAL_VARIABLE, "")
    return named if ADDRESS_MARK in named else ""


def blobs_place(environ: Mapping[str, str]) -> str:
    """Return where large contents of a database's runs are kept, "" for the database itself."""
    named = environ.get(BLOBS_VARIABLE, "")
    return named if not named or ADDRESS_MARK in named else str(Path(named).absolute())


def database_place(state: Path) -> Path:
    """Return what stands for the file of a journal where a database keeps the runs."""
    return state / "database"


def shown_address(address: str) -> str:
    """Return the address of a database for people: without passwords, and without its parameters."""
    return re.sub(r"://(?:([^/@:]*)(?::.*)?@)?", _user_shown, address.split("?")[0], count=1)


def _user_shown(found: re.Match[str]) -> str:
    return f"://{found[1]}@" if found[1] else "://"


def host_name(environ: Mapping[str, str]) -> str:
    """Return what this machine is called where several share their runs."""
    return environ.get(HOST) or socket.gethostname()


def user_name(environ: Mapping[str, str]) -> str:
    """Return for whom runs are begun here, "" where the system has no name for that."""
    if environ.get(USER):
        return environ[USER]
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an id without a name, as in a container
        return ""


def _place(environ: Mapping[str, str], own: str, xdg: str, below_home: str, function: str) -> Path:
    if environ.get(own):
        return Path(environ[own]).absolute()
    if not sys.platform.startswith("linux"):
        import platformdirs

        return Path(getattr(platformdirs, function)(APP, appauthor=False))
    # platformdirs says the same on Linux, but importing it would hold up the prompt by 15 ms.
    base = environ.get(xdg, "").strip()
    if base and os.path.isabs(base):
        return Path(base) / APP
    home = environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        # A user without a home (a container's nameless id): nothing is read, writing says why.
        return Path(os.devnull) / APP
    return Path(home) / below_home / APP
