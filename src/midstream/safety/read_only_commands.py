"""Commands that only look: what runs unasked, without a sandbox, and how.

A short list of programs with the flags of theirs that were looked at one by one. Any other flag, and
any argument that could name a file outside the workspace or a secret one, makes a command one like
every other. Nothing is run as it was written: `prepared` says which file to start, with which
arguments and in which environment, so that no configuration that came with the code has a say.

git needs the most care: see `quiet_git`. What its options do not close, `needs_git_check` has the edge
look for first.

What is left to the edge, since it takes the file system to know, is in `Prepared`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from midstream.safety import quiet_git
from midstream.safety.protected import (
    SECRET_ENDINGS,
    SECRET_FOLDERS,
    SECRET_NAMES,
    classify_path,
)

FOLDERS: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Where programs are looked for; never along a PATH, into which a project may put its own folder."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How to start a harmless command.

    Args:
        programs: absolute paths; the first that is an executable file (followed through links, not
            into the workspace) is started. None is: the command is not harmless here.
        arguments: what follows the program.
        environment: all of it; nothing is inherited.
        paths: arguments that are paths. Before the start each is opened as the file tools open
            theirs (no link out of the workspace, no secret where it leads to), and has to be a
            regular file or a folder, or nothing. Else the command is not harmless.
        reads_below: folders of `paths` are read with all that is in them, by ways the program finds
            itself. Outside a sandbox nobody can see to it that these stay inside.
        needs_git_check: list the configuration with `quiet_git.CHECK` first; see
            `quiet_git.unknown_keys`.
    """

    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    paths: tuple[str, ...] = ()
    reads_below: bool = False
    needs_git_check: bool = False


ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    **quiet_git.ENVIRONMENT,
}


def is_harmless(argv: Sequence[str]) -> bool:
    """Return whether a command only looks at files of the workspace, if the edge finds it so, too."""
    return prepared(argv) is not None


def reads_more(argv: Sequence[str]) -> bool:
    """Return whether a command may show what is in files that it does not name."""
    known = prepared(argv)
    return known is None or known.reads_below or _SECRET_PATHSPECS[0] in known.arguments


def leaving_out(known: Prepared, globs: Sequence[str]) -> Prepared | None:
    """Return how to start a command that `reads_more` so that it shows nothing of some files.

    None where none of its options says so. See `rules.Rule.globs`.
    """
    if _SECRET_PATHSPECS[0] in known.arguments:
        more = (*known.arguments, *(f":(top,exclude,icase,glob){glob}" for glob in globs))
    elif known.arguments[:1] == _RG_FIXED[:1]:
        first, *rest = known.arguments
        more = (first, *(f"--iglob=!/{glob}" for glob in globs), *rest)
    else:
        return None
    return msgspec.structs.replace(known, arguments=more)


def prepared(argv: Sequence[str]) -> Prepared | None:
    """Return how to start a harmless command, None for every other one."""
    return _prepared(tuple(argv))


@lru_cache(maxsize=512)
def _prepared(argv: tuple[str, ...]) -> Prepared | None:
    if not argv or not all(map(_is_clean, argv)):
        return None
    build = _PROGRAMS.get(argv[0])
    return None if build is None else build(argv[0], argv[1:])


_UNCLEAN = re.compile(r"[^\x20-\x7e]")


def _is_clean(word: str) -> bool:
    return len(word) <= 1_000 and not _UNCLEAN.search(word)


# --- flags ----------------------------------------------------------------------------------


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of a program that were looked at.

    `letters` stand alone and may be joined (`-la`); `valued` letters end such a group and take what
    follows, or the next word. `words` stand alone; the values of `valued_words` come behind `=`, and
    fit their pattern. `is_counted`: `-20` is a number of lines.
    """

    letters: str = ""
    valued: Mapping[str, "re.Pattern[str]"] = {}
    words: frozenset[str] = frozenset()
    valued_words: Mapping[str, "re.Pattern[str]"] = {}
    is_counted: bool = False


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """An argv as read: flags, what stands before a `--`, and what behind it."""

    flags: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    is_parted: bool

    @property
    def operands(self) -> tuple[str, ...]:
        return self.before + self.after


def _read(words: tuple[str, ...], known: Flags) -> _Read | None:
    """Return a command's flags and operands; None if a flag is not one that was looked at."""
    flags: list[str] = []
    before: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return _Read(
                flags=tuple(flags), before=tuple(before), after=tuple(rest), is_parted=True
            )
        if not word.startswith("-"):
            before.append(word)
            continue
        taken = _flag(word, rest, known)
        if taken is None:
            return None
        flags += taken
    return _Read(flags=tuple(flags), before=tuple(before), after=(), is_parted=False)


def _flag(word: str, rest: list[str], known: Flags) -> list[str] | None:
    """Return a flag with its value, taken off the rest; None if it is not known to be harmless."""
    if word in known.words or (known.is_counted and _COUNT.fullmatch(word)):
        return [word]
    name, equals, value = word.partition("=")
    if equals and name in known.valued_words:
        return [word] if known.valued_words[name].fullmatch(value) else None
    if word.startswith("--") or word == "-":
        return None
    for at, letter in enumerate(word[1:], start=1):
        if letter in known.valued:
            value = word[at + 1 :] or (rest.pop(0) if rest else "")
            if not known.valued[letter].fullmatch(value):
                return None
            if letter == "e":
                # In one word, so that nothing takes a pattern for a flag.
                return [*([word[:at]] if at > 1 else []), f"--regexp={value}"]
            # Some take a value only in the same word.
            return [f"{word[:at]}{letter}{value}"]
        if letter not in known.letters:
            return None
    return [word]


_COUNT = re.compile(r"-\d{1,6}")
_NUMBER = re.compile(r"\d{1,9}")
_SIGNED = re.compile(r"[+-]?\d{1,9}")
_TEXT = re.compile(r".{1,1000}")
_NAME = re.compile(r"[a-z0-9+]{1,30}")
_NEVER = re.compile(r"never|auto")


# --- paths ----------------------------------------------------------------------------------

_PATH = re.compile(r"[A-Za-z0-9_./@%+=,~ ()\[\]{}#&'-]+")


def _is_path(word: str) -> bool:
    """Return whether a word names a file below the workspace that is not secret.

    In no program here is it anything else: it begins with no dash, and holds no colon.
    """
    if not _PATH.fullmatch(word) or word.startswith(("/", "-")) or word == "":
        return False
    if ".." in word.split("/"):
        return False
    return classify_path(word).standing == "plain"


def _is_pathspec(word: str) -> bool:
    """Return whether a word is a path to git, too, for which brackets are wildcards."""
    return _is_path(word) and "[" not in word


def _started(
    program: str,
    arguments: Sequence[str],
    paths: Sequence[str] = (),
    *,
    below: bool = False,
    git: bool = False,
) -> Prepared:
    return Prepared(
        programs=tuple(f"{folder}/{program}" for folder in FOLDERS),
        arguments=tuple(arguments),
        environment=ENVIRONMENT,
        paths=tuple(paths),
        reads_below=below,
        needs_git_check=git,
    )


_Build = Callable[[str, tuple[str, ...]], Prepared | None]


def _of_files(known: Flags, *, least: int = 1) -> _Build:
    """Return how to build the start of a program whose operands are all files."""

    def build(program: str, words: tuple[str, ...]) -> Prepared | None:
        read = _read(words, known)
        if read is None or len(read.operands) < least or not all(map(_is_path, read.operands)):
            return None
        below = any(
            flag == "--recursive" or (flag[1] != "-" and "R" in flag) for flag in read.flags
        )
        return _started(program, (*read.flags, "--", *read.operands), read.operands, below=below)

    return build


def _pwd(program: str, words: tuple[str, ...]) -> Prepared | None:
    return _started(program, words) if words in ((), ("-P",), ("-L",)) else None


_GREP = Flags(
    letters="niclLwxvEFGHhoqsa",
    valued={"A": _NUMBER, "B": _NUMBER, "C": _NUMBER, "m": _NUMBER, "e": _TEXT},
    words=frozenset(
        {
            *("--ignore-case", "--line-number", "--count", "--files-with-matches", "--no-filename"),
            *("--files-without-match", "--word-regexp", "--line-regexp", "--invert-match"),
            *("--extended-regexp", "--fixed-strings", "--with-filename", "--only-matching"),
        }
    ),
    valued_words={
        **dict.fromkeys(("--context", "--after-context", "--before-context"), _NUMBER),
        "--max-count": _NUMBER,
        "--color": _NEVER,
    },
)
_RG = Flags(
    letters="nNiSsclwxvFoHI",
    valued={**_GREP.valued, "t": _NAME, "T": _NAME, "M": _NUMBER},
    words=frozenset(
        {
            *("--files", "--line-number", "--no-line-number", "--ignore-case", "--smart-case"),
            *("--count", "--count-matches", "--files-with-matches", "--files-without-match"),
            *("--word-regexp", "--line-regexp", "--invert-match", "--fixed-strings", "--stats"),
            *("--only-matching", "--with-filename", "--no-filename", "--heading", "--no-heading"),
            *("--column", "--vimgrep", "--trim", "--case-sensitive", "--type-list"),
        }
    ),
    valued_words={
        **_GREP.valued_words,
        "--type": _NAME,
        "--type-not": _NAME,
        "--max-depth": _NUMBER,
        "--max-columns": _NUMBER,
        "--sort": re.compile(r"path|modified|none"),
    },
)


def _split_pattern(read: _Read) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what is looked for, as flags, and the paths; the first operand is the pattern."""
    has_pattern = any(flag.startswith("--regexp=") for flag in read.flags)
    if has_pattern or {"--files", "--type-list"}.intersection(read.flags):
        return (), read.operands
    if not read.operands:
        return None
    return (f"--regexp={read.operands[0]}",), read.operands[1:]


def _grep(program: str, words: tuple[str, ...]) -> Prepared | None:
    read = _read(words, _GREP)
    split = None if read is None else _split_pattern(read)
    if read is None or split is None:
        return None
    pattern, paths = split
    # Without a file it would read what is typed.
    if not paths or not all(map(_is_path, paths)):
        return None
    return _started(program, ("--color=never", *read.flags, *pattern, "--", *paths), paths)


SECRET_GLOBS: Final = (
    *sorted(SECRET_FOLDERS | SECRET_NAMES),
    *(f"*{ending}" for ending in SECRET_ENDINGS),
    *(".env", ".env?*", "*.env", "*~", "#*#", "*.bak", "*.orig", "*.swp"),
    *(".docker", ".cargo", ".gem", ".m2", ".config", ".local", ".git", ".midstream"),
)
"""Names that a command that reads whole folders leaves out: the secret ones, and a few too many."""


_RG_FIXED: Final = (
    *("--no-config", "--color=never"),
    *(f"--iglob=!{glob}" for glob in SECRET_GLOBS),
)


def _rg(program: str, words: tuple[str, ...]) -> Prepared | None:
    read = _read(words, _RG)
    split = None if read is None else _split_pattern(read)
    if read is None or split is None:
        return None
    pattern, paths = split
    # Without a place it may read what is typed instead.
    paths = paths or (".",)
    if not all(map(_is_path, paths)):
        return None
    arguments = (*_RG_FIXED, *read.flags, *pattern, "--", *paths)
    return _started(program, arguments, paths, below=True)


# --- git ------------------------------------------------------------------------------------

_SECRET_PATHSPECS: Final = tuple(
    f":(top,exclude,icase,glob){start}{glob}{end}"
    for glob in SECRET_GLOBS
    if glob not in (".git", "*~", "#*#")
    for start, end in (("**/", ""), *([] if "." in glob[1:] else [("**/", "/**")]))
)
_REVISION = re.compile(
    r"(?:HEAD|@|[A-Za-z][A-Za-z0-9_-]*|[0-9a-f]{4,40})(?:[~^]\d{0,4}|@\{\d{1,4}\})*"
)
_RANGE = re.compile(r"\.{2,3}")
_FORMAT = re.compile(
    r"oneline|short|medium|full|fuller|reference|raw"
    r"|(?:format:|tformat:)?(?:[^%]|%(?:[HhTtPpnsbBadDr%]|a[nNeEdDrtiIs]|c[nNeEdDrtiIs]|x09))*"
)
_DATE = re.compile(r"[A-Za-z0-9 :.,/+-]{1,40}")
_STYLE = re.compile(r"relative|iso|iso-strict|short|local|default|unix|human|raw|rfc")
_DIFF_WORDS: Final = frozenset(
    {
        *("--stat", "--numstat", "--shortstat", "--summary", "--name-only", "--name-status"),
        *("--cached", "--staged", "--no-color", "--ignore-all-space", "--ignore-space-change"),
        *("--minimal", "--patience", "--histogram", "--find-renames", "--no-renames", "--check"),
        *("--word-diff", "--compact-summary", "--dirstat", "--raw", "--exit-code", "--quiet"),
        *("--ignore-blank-lines", "--full-index", "--patch", "--no-patch", "--patch-with-stat"),
    }
)
_DIFF = Flags(
    letters="wbpusM",
    valued={"U": _NUMBER},
    words=_DIFF_WORDS,
    valued_words={"--unified": _NUMBER, "--diff-filter": re.compile(r"[ACDMRTUXBacdmrtuxb]+")},
)
_LOG = Flags(
    letters="pus",
    valued={"n": _NUMBER, "U": _NUMBER},
    words=(_DIFF_WORDS - {"--cached", "--staged", "--exit-code", "--quiet", "--check"})
    | {
        *("--oneline", "--graph", "--all", "--decorate", "--no-decorate", "--first-parent"),
        *("--merges", "--no-merges", "--reverse", "--abbrev-commit", "--branches", "--tags"),
        *("--date-order", "--topo-order", "--follow", "--left-right", "--no-abbrev-commit"),
    },
    valued_words={
        **_DIFF.valued_words,
        **dict.fromkeys(("--format", "--pretty"), _FORMAT),
        **dict.fromkeys(("--since", "--until", "--after", "--before"), _DATE),
        **dict.fromkeys(("--author", "--committer", "--grep"), _TEXT),
        **dict.fromkeys(("--max-count", "--skip"), _NUMBER),
        "--date": _STYLE,
    },
    is_counted=True,
)
_STATUS = Flags(
    letters="sb",
    words=frozenset(
        {
            *("--short", "--branch", "--porcelain", "--long", "--no-renames", "--ahead-behind"),
            *("--no-ahead-behind", "--show-stash", "--untracked-files"),
        }
    ),
    valued={"u": re.compile(r"no|normal|all")},
    valued_words={
        "--porcelain": re.compile(r"v?[12]"),
        "--untracked-files": re.compile(r"no|normal|all"),
    },
)
_SHOWS_NAMES: Final = frozenset(
    {"--stat", "--numstat", "--shortstat", "--summary", "--name-only", "--name-status"}
)


def _git(program: str, words: tuple[str, ...]) -> Prepared | None:
    if not words:
        return None
    build = _GIT.get(words[0])
    return None if build is None else build(program, words[1:])


def _git_diff(name: str, known: Flags) -> _Build:
    """Return how to build what shows changes: nothing secret among them, no driver started.

    What stands before a `--` is a revision, and needs to look like one that is no path.
    """

    def build(program: str, words: tuple[str, ...]) -> Prepared | None:
        read = _read(words, known)
        if read is None or not all(map(_is_revision, read.before)):
            return None
        if not all(map(_is_pathspec, read.after)):
            return None
        fixed = (
            quiet_git.NO_DRIVERS
            if name != "log"
            else (*quiet_git.NO_DRIVERS, "--no-show-signature")
        )
        if name == "show":
            fixed = (*fixed, "--no-show-signature")
        # A log without changes names paths at most, and a pathspec would leave commits out of it.
        has_changes = name != "log" or any(map(_shows_changes, read.flags))
        places: tuple[str, ...] = read.after
        if has_changes:
            if "--follow" in read.flags:
                return None
            places = (*(read.after or (".",)), *_SECRET_PATHSPECS)
        return _started(
            program,
            (
                *quiet_git.OPTIONS,
                name,
                *read.flags,
                *fixed,
                *map(_commits, read.before),
                "--",
                *places,
            ),
            read.after,
            below=name == "diff" and _reads_work_tree(read),
            git=True,
        )

    return build


def _reads_work_tree(read: _Read) -> bool:
    """Return whether a `git diff` shows files as they are now, not as they were committed or added."""
    revisions = sum(2 if _RANGE.search(word) else 1 for word in read.before)
    return revisions < 2 and not {"--cached", "--staged"}.intersection(read.flags)


def _shows_changes(flag: str) -> bool:
    if flag.startswith("--"):
        return flag.partition("=")[0] in _CHANGES
    return flag.startswith("-U") or bool(set(flag[1:]) & set("puU"))


_CHANGES: Final = frozenset({"--patch", "--unified", "--word-diff", "--patch-with-stat"})


def _is_revision(word: str) -> bool:
    """Return whether a word is a revision or a range of them, and cannot be a path or anything else."""
    ends = _RANGE.split(word)
    return len(ends) <= 2 and all(
        bool(_REVISION.fullmatch(end)) or (end == "" and len(ends) == 2) for end in ends
    )


def _commits(revision: str) -> str:
    """Return a revision or range that names commits only: a file's hash would show that file."""
    dots = _RANGE.search(revision)
    ends = _RANGE.split(revision)
    return (dots.group() if dots else "").join(end and f"{end}^{{commit}}" for end in ends)


def _git_status(program: str, words: tuple[str, ...]) -> Prepared | None:
    read = _read(words, _STATUS)
    if read is None or not all(map(_is_pathspec, read.operands)):
        return None
    arguments = (*quiet_git.OPTIONS, "status", *read.flags, "--ignore-submodules=all", "--")
    return _started(program, (*arguments, *read.operands), read.operands, git=True)


def _git_fixed(name: str, known: Flags, *, takes_paths: bool = False) -> _Build:
    """Return how to build a git command of which only flags were looked at, and paths at most."""

    def build(program: str, words: tuple[str, ...]) -> Prepared | None:
        read = _read(words, known)
        if read is None or not all(map(_is_pathspec, read.operands)):
            return None
        if read.operands and not takes_paths:
            return None
        arguments = (*quiet_git.OPTIONS, name, *read.flags)
        tail = ("--", *read.operands) if takes_paths else ()
        return _started(program, (*arguments, *tail), read.operands, git=True)

    return build


_LS_FILES = Flags(
    letters="comdstk",
    words=frozenset(
        {
            *("--cached", "--others", "--modified", "--deleted", "--stage", "--killed"),
            *("--exclude-standard", "--full-name", "--directory"),
        }
    ),
)
_BRANCH = Flags(
    letters="avr", words=frozenset({"--all", "--list", "--remotes", "--show-current", "--verbose"})
)

_GIT: Final[Mapping[str, _Build]] = {
    "status": _git_status,
    "diff": _git_diff("diff", _DIFF),
    "log": _git_diff("log", _LOG),
    "show": _git_diff("show", _LOG),
    "ls-files": _git_fixed("ls-files", _LS_FILES, takes_paths=True),
    "branch": _git_fixed("branch", _BRANCH),
}

_ENDS: Final = Flags(letters="qv", valued={"n": _SIGNED, "c": _SIGNED}, is_counted=True)

LOOKED_AT: Final[Mapping[str, Flags]] = {
    "git log": _LOG,
    "git show": _LOG,
    "git diff": _DIFF,
    "git status": _STATUS,
    "git ls-files": _LS_FILES,
    "git branch": _BRANCH,
    "grep": _GREP,
    "rg": _RG,
    "ls": Flags(
        letters="laAh1RtSrdFpnisgoBGcUX",
        words=frozenset(
            {
                *("--all", "--almost-all", "--human-readable", "--recursive", "--reverse"),
                *("--directory", "--size", "--inode", "--classify", "--group-directories-first"),
            }
        ),
        valued_words={"--color": _NEVER},
    ),
    "cat": Flags(letters="nbsAvET"),
    "head": _ENDS,
    "tail": _ENDS,
    "wc": Flags(letters="lwcmL", words=frozenset({"--lines", "--words", "--bytes"})),
    "stat": Flags(),
    "pwd": Flags(letters="PL"),
}
"""The flags of each of these programs that only say what is looked at, and how it is shown."""

_PROGRAMS: Final[Mapping[str, _Build]] = {
    "git": _git,
    "rg": _rg,
    "grep": _grep,
    "ls": _of_files(LOOKED_AT["ls"], least=0),
    **{name: _of_files(LOOKED_AT[name]) for name in ("cat", "head", "tail", "wc", "stat")},
    "pwd": _pwd,
}
