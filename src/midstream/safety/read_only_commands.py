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
from itertools import product
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


def is_harmless(argv: tuple[str, ...]) -> bool:
    """Return whether a command only looks at files of the workspace, if the edge finds it so, too."""
    return prepared(argv) is not None


def reads_more(argv: tuple[str, ...]) -> bool:
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


@lru_cache(maxsize=512)
def prepared(argv: tuple[str, ...]) -> Prepared | None:
    """Return how to start a harmless command, None for every other one."""
    if not argv or any(len(word) > 1_000 or _UNCLEAN.search(word) for word in argv):
        return None
    name = " ".join(argv[:2] if argv[0] == "git" else argv[:1])
    build = _BUILDS.get(name)
    if build is None or argv[0] != name.partition(" ")[0]:
        return None
    read = _read(argv[1 + name.count(" ") :], LOOKED_AT[name])
    return None if read is None else build(name, read)


_UNCLEAN = re.compile(r"[^\x20-\x7e]")


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


def read_flags(table: str, values: Mapping[str, "re.Pattern[str]"]) -> dict[str, Flags]:
    """Return the flags of programs as a table has them, by program or program and subcommand.

    A line is one for each of `git log|show` and what was looked at of it: `[abc]` are letters that
    stand alone, `[nU=NUMBER]` letters with a value of that kind, `[1]` is `is_counted`; the others
    are words, `--date=STYLE` one with a value.

    Args:
        table: the lines; what is indented belongs to the line before.
        values: the patterns of the kinds. If one is "", every word may have a value of it.
    """
    found: dict[str, Flags] = {}
    for line in table.strip().replace("\n    ", " ").splitlines():
        names, _, listed = line.partition(":")
        flags = _flags_in(listed.split(), values)
        programs, _, verbs = names.partition(" ")
        for program, verb in product(programs.split("|"), verbs.split("|")):
            found[f"{program} {verb}".rstrip()] = flags
    return found


def _flags_in(listed: Sequence[str], values: Mapping[str, "re.Pattern[str]"]) -> Flags:
    letters, is_counted = "", False
    valued: dict[str, re.Pattern[str]] = {}
    words: set[str] = set()
    valued_words: dict[str, re.Pattern[str]] = {}
    for part in listed:
        name, has_value, kind = part.strip("[]").partition("=")
        if part == "[1]":
            is_counted = True
        elif part.startswith("[") and has_value:
            valued |= dict.fromkeys(name, values[kind])
        elif part.startswith("["):
            letters = name
        else:
            if not has_value:
                words.add(name)
            if has_value or "" in values:
                valued_words[name] = values[kind]
    return Flags(
        letters=letters,
        valued=valued,
        words=frozenset(words),
        valued_words=valued_words,
        is_counted=is_counted,
    )


_VALUES: Final[Mapping[str, "re.Pattern[str]"]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "CHANGES": r"[ACDMRTUXBacdmrtuxb]+",
        "COLOUR": r"never|auto",
        "DATE": r"[A-Za-z0-9 :.,/+-]{1,40}",
        "FORMAT": r"oneline|short|medium|full|fuller|reference|raw"
        r"|(?:format:|tformat:)?(?:[^%]|%(?:[HhTtPpnsbBadDr%]|a[nNeEdDrtiIs]|c[nNeEdDrtiIs]|x09))*",
        "NAME": r"[a-z0-9+]{1,30}",
        "NUMBER": r"\d{1,9}",
        "ORDER": r"path|modified|none",
        "SIGNED": r"[+-]?\d{1,9}",
        "STYLE": r"relative|iso|iso-strict|short|local|default|unix|human|raw|rfc",
        "TEXT": r".{1,1000}",
        "UNTRACKED": r"no|normal|all",
        "VERSION": r"v?[12]",
    }.items()
}

LOOKED_AT: Final[Mapping[str, Flags]] = read_flags(
    """
git log|show: [pus] [nU=NUMBER] [1] --stat --numstat --shortstat --summary --name-only
    --name-status --no-color --ignore-all-space --ignore-space-change --minimal --patience
    --histogram --find-renames --no-renames --word-diff --compact-summary --dirstat --raw
    --ignore-blank-lines --full-index --patch --no-patch --patch-with-stat --oneline --graph --all
    --decorate --no-decorate --first-parent --merges --no-merges --reverse --abbrev-commit
    --branches --tags --date-order --topo-order --follow --left-right --no-abbrev-commit
    --unified=NUMBER --diff-filter=CHANGES --format=FORMAT --pretty=FORMAT --since=DATE
    --until=DATE --after=DATE --before=DATE --author=TEXT --committer=TEXT --grep=TEXT
    --max-count=NUMBER --skip=NUMBER --date=STYLE
git diff: [wbpusM] [U=NUMBER] --stat --numstat --shortstat --summary --name-only --name-status
    --cached --staged --no-color --ignore-all-space --ignore-space-change --minimal --patience
    --histogram --find-renames --no-renames --check --word-diff --compact-summary --dirstat --raw
    --exit-code --quiet --ignore-blank-lines --full-index --patch --no-patch --patch-with-stat
    --unified=NUMBER --diff-filter=CHANGES
git status: [sb] [u=UNTRACKED] --no-renames --short --branch --porcelain --long --ahead-behind
    --no-ahead-behind --show-stash --untracked-files --porcelain=VERSION
    --untracked-files=UNTRACKED
git ls-files: [comdstk] --cached --others --modified --deleted --stage --killed --exclude-standard
    --full-name --directory
git branch: [avr] --all --list --remotes --show-current --verbose
grep: [niclLwxvEFGHhoqsa] [ABCm=NUMBER] [e=TEXT] --ignore-case --line-number --count
    --files-with-matches --no-filename --files-without-match --word-regexp --line-regexp
    --invert-match --extended-regexp --fixed-strings --with-filename --only-matching
    --context=NUMBER --after-context=NUMBER --before-context=NUMBER --max-count=NUMBER
    --color=COLOUR
rg: [nNiSsclwxvFoHI] [ABCmM=NUMBER] [e=TEXT] [tT=NAME] --ignore-case --line-number --count
    --files-with-matches --no-filename --files-without-match --word-regexp --line-regexp
    --invert-match --fixed-strings --with-filename --only-matching --files --no-line-number
    --smart-case --count-matches --stats --heading --no-heading --column --vimgrep --trim
    --case-sensitive --type-list --context=NUMBER --after-context=NUMBER --before-context=NUMBER
    --max-count=NUMBER --color=COLOUR --type=NAME --type-not=NAME --max-depth=NUMBER
    --max-columns=NUMBER --sort=ORDER
ls: [laAh1RtSrdFpnisgoBGcUX] --recursive --all --reverse --directory --almost-all --human-readable
    --size --inode --classify --group-directories-first --color=COLOUR
cat: [nbsAvET]
head|tail: [qv] [nc=SIGNED] [1]
wc: [lwcmL] --lines --words --bytes
stat:
pwd: [PL]
""",
    _VALUES,
)
"""The flags of each of these programs that only say what is looked at, and how it is shown."""


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
    if word in known.words or (known.is_counted and COUNT.fullmatch(word)):
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


COUNT: Final = re.compile(r"-\d{1,6}")
"""A number of lines as a flag."""


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
    name: str,
    arguments: Sequence[str],
    paths: Sequence[str] = (),
    *,
    below: bool = False,
) -> Prepared:
    program, git, command = name.partition(" ")
    return Prepared(
        programs=tuple(f"{folder}/{program}" for folder in FOLDERS),
        arguments=(*quiet_git.OPTIONS, command, *arguments) if git else tuple(arguments),
        environment=ENVIRONMENT,
        paths=tuple(paths),
        reads_below=below,
        needs_git_check=bool(git),
    )


_Build = Callable[[str, _Read], Prepared | None]


def _of_files(name: str, read: _Read) -> Prepared | None:
    """Build the start of a program whose operands are all files; all but `ls` would wait for words."""
    if (name != "ls" and not read.operands) or not all(map(_is_path, read.operands)):
        return None
    below = any(flag == "--recursive" or (flag[1] != "-" and "R" in flag) for flag in read.flags)
    return _started(name, (*read.flags, "--", *read.operands), read.operands, below=below)


def _pwd(name: str, read: _Read) -> Prepared | None:
    is_plain = not (read.operands or read.is_parted) and read.flags in ((), ("-P",), ("-L",))
    return _started(name, read.flags) if is_plain else None


def _split_pattern(read: _Read) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what is looked for, as flags, and the paths; the first operand is the pattern."""
    has_pattern = any(flag.startswith("--regexp=") for flag in read.flags)
    if has_pattern or {"--files", "--type-list"}.intersection(read.flags):
        return (), read.operands
    if not read.operands:
        return None
    return (f"--regexp={read.operands[0]}",), read.operands[1:]


def _grep(name: str, read: _Read) -> Prepared | None:
    split = _split_pattern(read)
    # Without a file it would read what is typed.
    if split is None or not split[1] or not all(map(_is_path, split[1])):
        return None
    pattern, paths = split
    return _started(name, ("--color=never", *read.flags, *pattern, "--", *paths), paths)


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


def _rg(name: str, read: _Read) -> Prepared | None:
    split = _split_pattern(read)
    if split is None:
        return None
    pattern, paths = split
    # Without a place it may read what is typed instead.
    paths = paths or (".",)
    if not all(map(_is_path, paths)):
        return None
    return _started(name, (*_RG_FIXED, *read.flags, *pattern, "--", *paths), paths, below=True)


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


def _git_changes(name: str, read: _Read) -> Prepared | None:
    """Build what shows changes: nothing secret among them, no driver started.

    What stands before a `--` is a revision, and needs to look like one that is no path.
    """
    if not (all(map(_is_revision, read.before)) and all(map(_is_pathspec, read.after))):
        return None
    unsigned = () if name == "git diff" else ("--no-show-signature",)
    places: tuple[str, ...] = read.after
    # A log without changes names paths at most, and a pathspec would leave commits out of it.
    if name != "git log" or any(map(_shows_changes, read.flags)):
        if "--follow" in read.flags:
            return None
        places = (*(read.after or (".",)), *_SECRET_PATHSPECS)
    fixed = (*quiet_git.NO_DRIVERS, *unsigned, *map(_commits, read.before))
    return _started(
        name,
        (*read.flags, *fixed, "--", *places),
        read.after,
        below=name == "git diff" and _reads_work_tree(read),
    )


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


def _git_names(name: str, read: _Read) -> Prepared | None:
    """Build a git command that shows names alone: of these only flags were looked at, and paths."""
    takes_paths = name != "git branch"
    if not all(map(_is_pathspec, read.operands)) or (read.operands and not takes_paths):
        return None
    fixed = ("--ignore-submodules=all",) if name == "git status" else ()
    paths = ("--", *read.operands) if takes_paths else ()
    return _started(name, (*read.flags, *fixed, *paths), read.operands)


_BUILDS: Final[Mapping[str, _Build]] = {
    **dict.fromkeys(("git diff", "git log", "git show"), _git_changes),
    **dict.fromkeys(("git status", "git ls-files", "git branch"), _git_names),
    **dict.fromkeys(("ls", "cat", "head", "tail", "wc", "stat"), _of_files),
    "rg": _rg,
    "grep": _grep,
    "pwd": _pwd,
}
