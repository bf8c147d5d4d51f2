"""Files by what they can do to a person: hold secrets, decide what runs later, or neither.

Names alone are looked at; where a path leads is the edge's to find out, which asks about the path as
it was named and about the one it leads to. A name counts as what any common file system could take
it for. `.GIT`, `.git.`, `.git::$DATA`, `GIT~1` and `.g<zero width joiner>it` are all `.git` on one
of them, and taking two files for one here only means to ask once too often.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from midstream.safety.protected_names import PLAIN_AT_ROOT, ROWS, UNKNOWN

Purpose: TypeAlias = Literal["read", "write"]
Standing: TypeAlias = Literal["plain", "protected", "secret"]
"""What a file is: one like any other; one whose change is always asked, in every mode; one that is
neither read nor written unless the user's own rules name it."""


class Classified(NamedTuple):
    """What a file is for a purpose, and why; the reason of a plain one is "".

    The reason goes on after a path and a colon: `the folder holds keys`.
    """

    standing: Standing
    reason: str = ""


PLAIN: Final = Classified("plain")

SECRET_FOLDERS: Final = frozenset(
    {
        *(".ssh", ".aws", ".gnupg", ".kube", ".azure", ".gcloud", ".password-store"),
    }
)
SECRET_NAMES: Final = frozenset(
    {
        *(".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".htpasswd", ".envrc"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
        *(".npmrc", ".dockercfg", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto", ".vault-token"),
        *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
    }
)
SECRET_ENDINGS: Final = (
    *(".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".keyring"),
    *(".ppk", ".keychain", ".keychain-db"),
)
ENV_EXAMPLES: Final = (".example", ".sample", ".template", ".dist")
_EXAMPLES: Final = tuple(ending[1:] for ending in ENV_EXAMPLES)

_CREDENTIALS: Final = "it may hold credentials"

SECRET_PATHS: Final = (
    (".docker", "config.json"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".gem", "credentials"),
    (".m2", "settings.xml"),
    (".config", "gh"),
    (".config", "gcloud"),
    (".config", "rclone"),
    (".local", "share", "keyrings"),
    ("library", "keychains"),
)
"""Names in a row, anywhere in a path."""

_OWN_STATE: Final = (
    (".config", "midstream"),
    (".local", "share", "midstream"),
    (".local", "state", "midstream"),
    (".cache", "midstream"),
    ("application support", "midstream"),
    ("appdata", "local", "midstream"),
)
_GIT_SECRETS: Final = frozenset({"config", "config.worktree", "credentials"})

_OWN_FOLDERS: Final = {
    ".git": "the repository's internals belong to git",
    ".midstream": "midstream's own settings, roles and workflows are changed by people",
}


def classify(parts: Sequence[str], purpose: Purpose = "read") -> Classified:
    """Return what a path of these parts, below the workspace, is for a purpose.

    No parts: the workspace itself. Reading is never `protected`: such a file is dangerous to change,
    not to look at. A part may hold slashes of either kind; it is then several.
    """
    folded = tuple(_folded_parts(parts))
    if not folded:
        return PLAIN
    reason = _secret(folded)
    if reason:
        return Classified("secret", reason)
    if purpose == "write":
        reason = _protected(folded)
        if reason:
            return Classified("protected", reason)
    return PLAIN


def classify_path(path: str, purpose: Purpose = "read") -> Classified:
    """Return `classify` of a path with slashes."""
    return classify((path,), purpose)


_SLASHES = re.compile(r"[/\\]")


def _folded_parts(parts: Iterable[str]) -> Iterable[str]:
    for part in parts:
        for piece in _SLASHES.split(part):
            if piece not in ("", "."):
                yield from (name for name in _SLASHES.split(folded(piece)) if name)


_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that draw nothing (Unicode's Default_Ignorable_Code_Point); HFS+ leaves some out."""


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return one spelling for all the names a file system could take for the same.

    Case, compatibility forms and invisible characters go, and what Windows drops: dots and spaces
    at the end, and a stream after a colon. Never empty, unless the name is.
    """
    if name.isascii():
        text = name.lower()
    else:
        text = unicodedata.normalize("NFKC", _IGNORED.sub("", name))
        # upper() first: the dotless i has no case folding, but one capital with i.
        text = unicodedata.normalize("NFKC", text.upper().casefold()).replace("i\u0307", "i")
        text = _IGNORED.sub("", text)
    cut = text.partition(":")[0].rstrip(". ")
    return cut or text or name


def _secret(parts: tuple[str, ...]) -> str:
    """Return why the file of these folded parts is secret, "" when it is not."""
    if any(part in SECRET_FOLDERS or _short(part) in _SHORT_SECRETS for part in parts):
        return "the folder holds keys"
    if reason := _has_run(parts):
        return reason
    if ".git" in parts[:-1] and parts[-1] in _GIT_SECRETS:
        return _CREDENTIALS
    for name in {parts[-1], _undecorated(parts[-1])}:
        if _is_env(name):
            return "environment files hold secrets"
        if name in SECRET_NAMES or name.endswith(SECRET_ENDINGS):
            return "the file holds keys or passwords"
    return ""


def _protected(parts: tuple[str, ...]) -> str:
    """Return why a change of the file of these folded parts is always asked, "" when it is not."""
    for at, part in enumerate(parts):
        if reason := _obeyed(part):
            return reason
        for run, kind in _OBEYED.runs.get(part, ()):
            below = parts[at : at + len(run)]
            if len(below) == len(run) and all(map(_is_like, run, below)):
                return kind
    return UNKNOWN if _is_unknown(parts[0]) else ""


@lru_cache(maxsize=4096)
def _obeyed(name: str) -> str:
    """Return the kind of a name that counts wherever it stands, "" where it has none."""
    kind = _OBEYED.names.get(name) or _SHORT_PROTECTED.get(_short(name), "")
    if kind or not (name.startswith(_OBEYED.beginnings) or name.endswith(_OBEYED.endings)):
        return kind
    return next((kind for glob, kind in _OBEYED.globs if _is_like(glob, name)), "")


def _is_unknown(name: str) -> bool:
    """Return whether a name of the root is hidden and nobody here knows what obeys it."""
    if not name.startswith(".") or name in PLAIN_AT_ROOT or _IGNORES.fullmatch(name):
        return False
    return not name.startswith(".env")  # secret, or the example of one


_IGNORES: Final = re.compile(r"\.[a-z0-9_-]*(?:ignore|cache)")
"""Such as `.dockerignore`: names that are left out. Those that agents read are in the table."""


class _Obeyed(NamedTuple):
    """The table as things are looked up in it: a name, the first of several, one with a wildcard.

    `beginnings` and `endings` are what a name needs one of to be like any of `globs`.
    """

    names: dict[str, str]
    runs: dict[str, list[tuple[list[str], str]]]
    globs: list[tuple[str, str]]
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]


def _read_table() -> _Obeyed:
    names = dict(_OWN_FOLDERS)
    runs: dict[str, list[tuple[list[str], str]]] = {}
    globs: list[tuple[str, str]] = []
    for row in ROWS:
        for pattern in row.patterns:
            first, *more = pattern.split("/")
            if more:
                runs.setdefault(first, []).append(([first, *more], row.kind))
            elif "*" in pattern:
                globs.append((pattern, row.kind))
            else:
                names.setdefault(pattern, row.kind)
    ends = [pattern.partition("*") for pattern, _ in globs]
    beginnings = tuple({before for before, _, _ in ends if before})
    return _Obeyed(
        names, runs, globs, beginnings, tuple({after for before, _, after in ends if not before})
    )


def _is_like(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern of one star at most."""
    before, star, after = pattern.partition("*")
    if not star:
        return pattern == name
    fits = name.startswith(before) and name.endswith(after)
    return fits and len(name) >= len(before) + len(after)


_OBEYED: Final = _read_table()


def _is_env(name: str) -> bool:
    """Return whether it is `.env` or one of its kind: `.env.local`, `.env-prod`, `prod.env`."""
    if name.endswith(".env"):
        return name.removesuffix(".env") not in _EXAMPLES
    return name.startswith((".env.", ".env-", ".env_")) and not name.endswith(ENV_EXAMPLES)


_DECORATIONS: Final = (
    *("~", "#", ".bak", ".old", ".orig", ".save", ".swp", ".swo", ".tmp", ".backup", ".copy"),
)


def _undecorated(name: str) -> str:
    """Return the name an editor's or a person's backup copy was made of: `.env~`, `..env.swp`."""
    bare = name.removeprefix("#").removeprefix(".#")
    while ending := next((each for each in _DECORATIONS if bare.endswith(each)), ""):
        bare = bare.removesuffix(ending)
    return bare[1:] if bare.startswith("..") else bare


def _has_run(parts: tuple[str, ...]) -> str:
    """Return why a path with one of the rows of names in it is secret, "" if it has none."""
    for at, part in enumerate(parts):
        for run, why in _RUNS.get(part, ()):
            if parts[at : at + len(run)] == run:
                return why
    return ""


_RUNS: Final = {
    first: tuple(
        (run, why)
        for runs, why in ((_OWN_STATE, "it is midstream's own state"), (SECRET_PATHS, _CREDENTIALS))
        for run in runs
        if run[0] == first
    )
    for first in {run[0] for run in (*_OWN_STATE, *SECRET_PATHS)}
}


# --- the short names of Windows -------------------------------------------------------------

_SHORT_NAME = re.compile(r"([^.~]{1,6})~\d(?:\.|$)")


def _short(part: str) -> str:
    """Return the beginning a Windows short name such as `git~1` keeps of the long one, else ""."""
    if "~" not in part:
        return ""
    match = _SHORT_NAME.match(part)
    return match.group(1) if match else ""


def _beginning(name: str) -> str:
    return name.replace(".", "")[:6]


_SHORT_SECRETS: Final = frozenset(
    _beginning(name) for name in (*SECRET_FOLDERS, ".env", *SECRET_NAMES) if name.startswith(".")
)
_SHORT_PROTECTED: Final = {
    _beginning(name): why for name, why in _OBEYED.names.items() if name.startswith(".")
}
