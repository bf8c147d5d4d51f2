"""Which words of a command are data, so that a wildcard in a rule may stand for them.

Whoever allows `git log *` means revisions and paths, not `--output=.git/hooks/pre-commit`. So a wildcard
covers what a program only works on or shows differently by, never a flag that writes, executes or loads.
Nobody knows all of those, so the table has the others: the flags of each program that were looked at.
Abbreviations, flags of a later version and letters glued to another are not in it.

    a program of the table     its operands, and the flags listed for it
    one that starts another    nothing; but behind `timeout 5`, `uv run`, `npx` and their like what the
                               other's table says, once the other stands in the rule itself
    any other program          words that are no option: not `-x`, `+x`, `@file`, `NAME=value`

The name of the program and of a subcommand that does other work are never data: `git *` covers
`git push origin`, but neither `git config` nor `git bisect run`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from midstream.safety.capability import STARTERS
from midstream.safety.read_only_commands import COUNT, LOOKED_AT, Flags, read_flags

_TEXT: Final = re.compile(r"[^-].{0,20000}", re.DOTALL)
_OPTION: Final = re.compile(r"[-+@]|[A-Za-z_][A-Za-z0-9_]*=")


def _beside(name: str, more: Flags) -> Flags:
    """Return the flags of a program that only looks, with those that show what it may not show unasked."""
    known = LOOKED_AT[name]
    return Flags(
        letters=known.letters + more.letters,
        valued={**known.valued, **more.valued},
        words=known.words | more.words,
        valued_words={**known.valued_words, **more.valued_words},
        is_counted=known.is_counted,
    )


_SHOWING_MORE: Final = read_flags(
    """
git log|show: [SGL=] --numstat
grep|egrep|fgrep: [rRIPz] --recursive --include --exclude --exclude-dir --perl-regexp --regexp
rg: [uUP.] [gr=] --glob --iglob --hidden --no-ignore --json --multiline --replace --regexp
""",
    {"": _TEXT},
)
_OTHERS: Final = read_flags(
    """
git add: [AunvN] --all --update --dry-run --verbose --intent-to-add
git commit: [asvq] [m=] --all --signoff --verbose --quiet --message --amend --no-edit
    --allow-empty
git push|fetch|pull: [qvnut] --tags --all --quiet --verbose --dry-run --set-upstream --rebase
    --ff-only --no-rebase
git checkout|switch: [qbc] --quiet --create --detach
git stash: [qu] [m=] --quiet --include-untracked --message --keep-index
git blame: [wsen] [L=] --date --color-lines
git rev-parse: --short --abbrev-ref --show-toplevel --verify --is-inside-work-tree
git tag: [ln] --list --sort --contains --merged
git describe: --tags --always --dirty --long --abbrev
git shortlog: [sne] --summary --numbered --email
git merge|cherry-pick|revert: --no-edit --ff-only --no-ff --abort --continue --quit
git rm|mv|restore|reset: [q] --cached --staged --worktree --quiet --dry-run --soft --mixed
pytest|py.test: [xqvsl] [kmnr=] --lf --last-failed --ff --failed-first --nf --sw --stepwise --tb
    --durations --durations-min --co --collect-only --no-header --no-summary --color --capture
    --showlocals --verbose --quiet --exitfirst --no-cov --cov --cov-branch --setup-show --fixtures
    --markers --ignore --ignore-glob --deselect --disable-warnings --doctest-modules --timeout
    --dist --numprocesses --reruns --show-capture --full-trace --version --help --strict-markers
mypy: [v] --strict --pretty --ignore-missing-imports --no-incremental --verbose --show-error-codes
    --show-error-context --no-error-summary --python-version --namespace-packages
pyright: --stats --outputjson --warnings --level --pythonversion
ruff check: [qnv] --quiet --verbose --diff --statistics --no-cache --show-files --select --ignore
    --output-format --exit-zero --preview --no-fix
ruff format: [qnv] --check --diff --quiet --verbose --no-cache --preview
black|isort: [qv] --check --check-only --diff --quiet --verbose
npm run|run-script|test|t|start|stop|ci|install|i|ls|list|outdated|audit|view|root|--version|-v:
    [sDE] [w=] --silent --if-present --workspaces --workspace --ignore-scripts --save-dev
    --save-exact --no-audit --no-fund --include-workspace-root
cargo build|b|check|c|test|t|clippy|run|r|bench|doc|tree|metadata|search|version|--version: [qvr]
    [pj=] --all --workspace --release --lib --bins --tests --examples --all-targets --all-features
    --no-default-features --quiet --verbose --locked --offline --frozen --no-fail-fast --package
    --features --test --bin --example --bench --benches --jobs --message-format --no-run --doc
cargo fmt: [v] --check --all --quiet --verbose
go test|build|vet|list|run|fmt|doc|version: -v -race -short -cover -failfast -json -run -bench
    -benchmem -count -timeout -parallel -tags -skip -shuffle -x -n -a -p
pip|pip3 install|list|show|freeze|check|--version: [Uqv] --upgrade --quiet --verbose --no-deps
    --pre --dry-run
docker|podman ps|images|logs|inspect|version|info: [aqn] [f=] --tail --format --filter --all
    --quiet --no-trunc --since --until
make|gmake: [ksnBwq] [j=] --silent --quiet --keep-going --always-make --dry-run --just-print
    --no-print-directory --jobs --print-directory --trace
tsc: --noEmit --pretty --strict --listFiles --version --skipLibCheck --watch -w
eslint: --quiet --max-warnings --ext --no-color --color --no-error-on-unmatched-pattern
prettier: [cl] --check --list-different --no-color --log-level --ignore-unknown
jest: [itbw] --ci --bail --verbose --silent --runInBand --watch --watchAll --testNamePattern
    --testPathPattern --maxWorkers --passWithNoTests --onlyChanged
vitest: [t] --run --reporter --testNamePattern --bail --silent --no-color
sort: [nrufbdigMhVszcmC] [ktS=] --unique --reverse --numeric-sort --ignore-case --version-sort
    --human-numeric-sort --stable --check --zero-terminated --key --field-separator
sed: [nErsuz] --quiet --silent --regexp-extended --separate --null-data --posix --sandbox
awk|gawk|mawk|nawk: [F=]
find: [HLP] [1] -name -iname -path -ipath -wholename -iwholename -type -xtype -maxdepth -mindepth
    -size -mtime -mmin -atime -amin -ctime -cmin -newer -empty -print -print0 -printf -not -o -or
    -a -and -prune -regex -iregex -regextype -perm -user -group -readable -writable -executable
    -ls -depth -xdev -mount -links -quit -true -false -samefile -follow -daystart
tar: [cxtvzjJpkah] [fC=] --create --extract --list --verbose --gzip --bzip2 --xz --zstd --file
    --directory --exclude --strip-components --wildcards --no-same-owner --keep-old-files
bsdtar: [cxtvzjJpk] [C=] --exclude
curl: [sSLfIv46] --silent --show-error --location --fail --head --compressed --verbose
jq: [rcnseSMCj] --raw-output --compact-output --slurp --null-input --sort-keys --tab --exit-status
    --arg --argjson --join-output
diff: [urNqyBbwiEZ] [U=] --unified --brief --recursive --color --side-by-side --ignore-case
du: [shacxk] [d=] --summarize --human-readable --max-depth --all
df: [hTaik]
tree: [adfpsh] [LIP=] --dirsfirst --prune --noreport --gitignore
file: [biLk] --brief --mime --mime-type
mkdir: [pv] --parents --verbose
cut: [sz] [dfcb=] --delimiter --fields --characters
tr: [cdst]
""",
    {"": _TEXT},
)
TABLE: Final[Mapping[str, Flags]] = {
    **LOOKED_AT,
    **{
        name: _beside("grep" if name.endswith("grep") else name, more)
        for name, more in _SHOWING_MORE.items()
    },
    **_OTHERS,
}
"""The flags that only say what is worked on, or how it is shown, by program or program and subcommand."""

_FAMILIES: Final = frozenset(key.partition(" ")[0] for key in TABLE if " " in key)
"""Programs of which each subcommand is another program: what is not in the table is not covered."""

_FIRST: Final[Mapping[str, "re.Pattern[str]"]] = {
    # No w, e, r, W, R, F: s with flags that only choose, print, delete, quit.
    "sed": re.compile(
        r"(?:[0-9,$]*)(?:s(?P<d>[/|#,:])(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)"
        r"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)[gIip0-9]*|[pdq=])"
    ),
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"), re.compile(r"(?!.*(?:system|getline))[^|>@\\]*")
    ),
    # Letters without a dash, or a path.
    **dict.fromkeys(("tar", "bsdtar"), re.compile(r"[cxtvzjJfpkah]+|.*[./].*")),
}
"""What the first operand of some has to be: it is a program itself, or flags."""

_BUNDLED: Final = frozenset({"tar", "bsdtar"})
_NAMING: Final[Mapping[str, str]] = {"npm": "@", "git": "@"}
"""What begins names rather than options of some: `@scope/package`, `@{upstream}`."""

_REMOTE: Final[Mapping[str, str]] = {"git": "::", "tar": ":", "bsdtar": ":"}
"""What an operand holds that names a program to reach something elsewhere with."""

_BEHIND: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        ("npx", "bunx", "uvx", "nice", "nohup", "time", "stdbuf", "xvfb-run", "uv run"), 0
    ),
    **dict.fromkeys(
        ("poetry run", "pdm run", "rye run", "hatch run", "pipenv run", "bundle exec"), 0
    ),
    **dict.fromkeys(("pnpm exec", "yarn exec", "npm exec", "npm x", "python -m", "python3 -m"), 0),
    **dict.fromkeys(("timeout",), 1),
}
"""What starts another program, and after how many words more it stands."""

_WRITES_OR_SENDS: Final = """
uniq xxd sqlite3 psql mysql ed ex vim vi nvim emacs eval rsync scp sftp osascript
powershell pwsh cmd crontab at uv poetry pdm hatch pipenv  kubectl helm
hyperfine valgrind fakeroot proot firejail bwrap xdg-open open faketime taskset chrt
prlimit nsenter expect direnv foreman concurrently nodemon onchange mosh ansible vagrant
proxychains dotenv
"""
_ALL_ASKED: Final = frozenset({*_WRITES_OR_SENDS.split(), "pnpm dlx", "yarn dlx"})
"""Programs, beside those that start others, whose operands are written to, run or sent."""


@lru_cache(maxsize=256)
def data_in(argv: tuple[str, ...]) -> tuple[bool, ...]:
    """Return of each word of an argv whether it is data. Of a program nobody knows see above."""
    program = _bare(argv[0])
    for count in (2, 1):
        name = " ".join((program, *argv[1:count]))
        if len(argv) >= count and name in _BEHIND:
            return _behind(argv, count, count + _BEHIND[name])
    if program in TABLE:
        found = (False, *_known(program, argv[1:]))
    elif len(argv) > 1 and f"{program} {argv[1]}" in TABLE:
        found = (False, True, *_known(f"{program} {argv[1]}", argv[2:]))
    elif {program, " ".join((program, *argv[1:2]))} & _NEVER:
        found = (False,) * len(argv)
    else:
        found = (False, *(not _OPTION.match(word) for word in argv[1:]))
    if argv[0] == program:
        return found
    # One named by its path may be another program: none of its flags was looked at.
    return tuple(
        is_data and not _OPTION.match(word) for is_data, word in zip(found, argv, strict=True)
    )


def _bare(word: str) -> str:
    name = word.rpartition("/")[2].lower()
    return name[1:] if name not in TABLE and name[1:] in _GNU else name


_GNU: Final = frozenset(
    {"sed", "awk", "find", "tar", "sort", "diff", "grep", "du", "make", "timeout"}
)
"""What is also installed with a g before its name."""

_NEVER: Final = STARTERS | _FAMILIES | _ALL_ASKED


def _behind(argv: tuple[str, ...], after: int, at: int) -> tuple[bool, ...]:
    """Return the same of what starts the program at `at`, where no option stands before that."""
    if len(argv) <= at or any(map(_OPTION.match, argv[after : at + 1])):
        return (False,) * len(argv)
    return (*((False,) * at), *data_in(argv[at:]))


def _known(name: str, words: Sequence[str]) -> list[bool]:
    """Return of each word behind a program of the table whether it is data."""
    program = name.partition(" ")[0]
    first = None if program in _BUNDLED and words[:1] and words[0][:1] == "-" else _FIRST.get(name)
    found: list[bool] = []
    is_over = False
    while len(found) < len(words):
        word = words[len(found)]
        if word.startswith("-") and not is_over:
            is_over = word == "--"
            found += [True] if is_over else _flag(word, words[len(found) + 1 :], TABLE[name])
        elif first is not None:
            found.append(bool(first.fullmatch(word)))
            first = None
        else:
            is_data = (is_over and word.startswith("-")) or word[:1] in _NAMING.get(program, "\n")
            is_remote = _REMOTE.get(program, "\n") in word
            found.append((is_data or not _OPTION.match(word)) and not is_remote)
    return found


def _flag(word: str, rest: Sequence[str], known: Flags) -> list[bool]:
    """Return whether a flag is one that was looked at, and of a word that is its value the same."""
    name, equals, value = word.partition("=")
    if word in known.words or (known.is_counted and COUNT.fullmatch(word)):
        return [True]
    if equals and name in known.valued_words:
        return [bool(known.valued_words[name].fullmatch(value))]
    if word.startswith("--"):
        return [False]
    for at, letter in enumerate(word[1:], start=1):
        if letter in known.valued:
            if value := word[at + 1 :]:
                return [bool(known.valued[letter].fullmatch(value))]
            return [True, *(bool(known.valued[letter].fullmatch(each)) for each in rest[:1])]
        if letter not in known.letters:
            return [False]
    return [len(word) > 1]
