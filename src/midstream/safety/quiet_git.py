"""How git is started so that it starts nothing itself: the one place that knows.

A repository's configuration belongs to whoever wrote the repository, and names programs that git
starts. The options here close what has a switch (fsmonitor, hooks, pagers, signatures, submodules,
fetching what is missing); commands that show changes close their own (`NO_DRIVERS`). Filters have no
switch. So a command that reads the work tree has `CHECK` list the configuration first, which starts
nothing, and `unknown_keys` says whether anything stands in it that was not looked at.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

OPTIONS: Final = (
    *("--no-pager", "--no-optional-locks", "--no-replace-objects"),
    *(
        part
        for setting in (
            *("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"),
            *("core.pager=cat", "core.untrackedCache=false", "core.attributesFile=/dev/null"),
            *("log.showSignature=false", "gpg.program=false", "gpg.ssh.program=false"),
            *("gpg.x509.program=false", "diff.submodule=short"),
            *("diff.ignoreSubmodules=all", "submodule.recurse=false", "protocol.allow=never"),
            *("status.submoduleSummary=false", "format.pretty=medium", "color.ui=never"),
        )
        for part in ("-c", setting)
    ),
)
"""What stands before every command."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # No protocol has this name: whatever would be fetched with is refused.
    "GIT_ALLOW_PROTOCOL": "none",
}
"""What it needs to be told beside them. Nothing of our own environment that begins with GIT_ is for it."""

OWNERS: Final = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_ATTR_NOSYSTEM")
"""The names in `ENVIRONMENT` that keep the configuration of the person and the machine from it."""

NO_DRIVERS: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
"""What commands that show changes are given: no diff program, no text conversion, no other repository."""

CHECK: Final = ("config", "--list", "--includes", "--name-only", "--null")
"""The arguments that list a repository's configuration, started as a git command is: it reads, and
starts nothing. Its output goes to `unknown_keys`; where it fails, there is no repository."""

_KNOWN_KEYS = re.compile(
    r"""
    core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode
        |symlinks|autocrlf|eol|safecrlf|quotepath|compression|abbrev|protecthfs|protectntfs
        |preloadindex|commitgraph|trustctime|checkstat|sparsecheckout|sparsecheckoutcone
        |longpaths|fscache|bigfilethreshold|packedgitlimit|deltabasecachelimit|editor|commentchar
        |whitespace|fsmonitor|fsmonitorhookversion|hookspath|pager|untrackedcache|attributesfile|createobject)
    | (user|author|committer|color|init|pull|push|fetch|rerere|advice|gc|pack|index|feature
        |rebase|merge|column|status|commit|maintenance|submodule|protocol|safe|http|credential
        |url|branch|lfs)\..*
    | remote\..*\.(url|fetch|pushurl|push|tagopt|prune|gh-resolved|mirror|skipdefaultupdate)
    | remote\.pushdefault
    | log\.(date|decorate|abbrevcommit|follow|mailmap|showsignature)
    | diff\.(algorithm|renames|renamelimit|mnemonicprefix|noprefix|colormoved|submodule
        |ignoresubmodules|context|interhunkcontext|wserrorhighlight|indentheuristic)
    | gpg\.(program|format|ssh\.program|x509\.program)
    | format\.pretty | extensions\.(objectformat|worktreeconfig) | gui\..* | include\.path
    """,
    re.VERBOSE | re.IGNORECASE,
)


_FILTER = re.compile(r"filter\.(.+)\.[^.]*", re.DOTALL | re.IGNORECASE)


def is_of_filter(key: str) -> bool:
    """Return whether a key of a configuration is one of a filter, which `without_filters` shuts."""
    return _FILTER.fullmatch(key) is not None


def without_filters(listed: str) -> dict[str, str]:
    """Return variables with which git starts no filter of a configuration: files are taken as they are.

    `listed` is what `CHECK` printed, parted by NUL. An empty command is none; that a filter is required
    would be an error then.
    """
    found = (_FILTER.fullmatch(key) for key in listed.split("\0"))
    names = dict.fromkeys(match[1] for match in found if match)
    settings = [
        (f"filter.{name}.{key}", value)
        for name in names
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    ]
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def unknown_keys(listed: str | Iterable[str]) -> tuple[str, ...]:
    """Return the keys of a git configuration that may make git start something; none: go on.

    `listed` is what `CHECK` printed, parted by NUL, or the keys. Only keys that were looked at
    pass: a filter, a driver, another work tree, a remote that git fetches from by itself do not.
    """
    keys = listed.split("\0") if isinstance(listed, str) else listed
    return tuple(dict.fromkeys(key for key in keys if key and not _KNOWN_KEYS.fullmatch(key)))
