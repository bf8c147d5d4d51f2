"""Repositories whose own files name programs that git would start, or lead it out of the workspace.

Each harmless git command is run on each as the edge runs it, with its fixed flags and environment. A
trap leaves a file behind when anything starts it; no output may hold what is secret or outside.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from tables import table

from midstream.safety.command_line import read_command
from midstream.safety.quiet_git import CHECK, OPTIONS, unknown_keys
from midstream.safety.read_only_commands import ENVIRONMENT, FOLDERS, prepared

CANARY = "canary-5f1c"
LINES = (
    *("git status", "git status -s -uall", "git diff", "git diff HEAD", "git diff --stat"),
    *("git log -5 --stat", "git log -p -5", "git log --graph --all", "git show", "git show HEAD"),
    *("git log --oneline --decorate", "git ls-files -s", "git ls-files -mo", "git branch -av"),
    "git diff -- src",
)
GIT = shutil.which("git", path="/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin") or "git"


class Repository:
    """A repository with a commit, a change since, secret files, and a trap to be set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.sprung = folder / "sprung"
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(CANARY)
        (self.folder / "src").mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.write("src/a.py", "one = 1\n")
        self.write(".env", f"KEY={CANARY}\n")
        self.write("deploy/server.pem", CANARY)
        self.trap = folder / "trap"
        self.trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {self.sprung}\ncat 2>/dev/null\nexit 0\n')
        self.trap.chmod(0o755)
        self.commit("one")

    def git(self, *arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent)}
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
        ended = subprocess.run(
            [GIT, *who, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            check=True,
            timeout=DEADLINE_S,
        )
        return ended.stdout.decode()

    def commit(self, message: str) -> None:
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--no-verify", "-m", message)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def set(self, *settings: str) -> None:
        for setting in settings:
            name, _, value = setting.partition("=")
            self.git("config", name, value)

    def change(self) -> None:
        self.write("src/a.py", "one = 2\n")
        self.write(".env", f"KEY={CANARY}-2\n")

    def run(self, line: str, *, folder: Path | None = None, program: str = GIT) -> str:
        """Return what a harmless command prints, started as the edge starts it."""
        known = prepared(read_command(line).argv)
        assert known is not None, line
        ended = subprocess.run(
            [program, *known.arguments],
            cwd=folder or self.folder,
            env=dict(known.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
        )
        return (ended.stdout + ended.stderr).decode("utf-8", "replace")

    def unknown_keys(self) -> tuple[str, ...]:
        ended = subprocess.run(
            [GIT, *OPTIONS, *CHECK],
            cwd=self.folder,
            env=dict(ENVIRONMENT),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
        )
        return unknown_keys(ended.stdout.decode())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def fsmonitor(it: Repository) -> None:
    it.set(f"core.fsmonitor={it.trap}")


def fsmonitor_of_the_second_kind(it: Repository) -> None:
    it.set(f"core.fsmonitor={it.trap}", "core.fsmonitorHookVersion=2")


def hooks(it: Repository) -> None:
    for name in ("post-index-change", "post-checkout", "pre-commit", "fsmonitor-watchman"):
        shutil.copy(it.trap, it.folder / ".git" / "hooks" / name)


def hooks_elsewhere(it: Repository) -> None:
    (it.folder / "hooks").mkdir()
    shutil.copy(it.trap, it.folder / "hooks" / "post-index-change")
    it.set("core.hooksPath=hooks")


def pager(it: Repository) -> None:
    it.set(
        f"core.pager={it.trap}", *(f"pager.{each}={it.trap}" for each in ("log", "diff", "show"))
    )


def external_diff(it: Repository) -> None:
    it.set(f"diff.external={it.trap}")


def diff_driver(it: Repository) -> None:
    it.write(".gitattributes", "* diff=evil\n")
    it.set(f"diff.evil.command={it.trap}")


def converter(it: Repository) -> None:
    it.write(".gitattributes", "* diff=evil\n")
    it.set(f"diff.evil.textconv={it.trap}", "diff.evil.cachetextconv=true")


def clean_filter(it: Repository) -> None:
    it.write(".gitattributes", "* filter=evil\n")
    it.set(f"filter.evil.clean={it.trap}", f"filter.evil.smudge={it.trap}")


def filter_process(it: Repository) -> None:
    it.write(".git/info/attributes", "* filter=evil\n")
    it.set(f"filter.evil.process={it.trap}", "filter.evil.required=true")


def signatures(it: Repository) -> None:
    it.set("log.showSignature=true", f"gpg.program={it.trap}", f"gpg.ssh.program={it.trap}")
    it.set(f"gpg.x509.program={it.trap}")
    _sign_last(it)


def signatures_by_a_format(it: Repository) -> None:
    it.set("format.pretty=%G? %GS", f"gpg.program={it.trap}")
    _sign_last(it)


def _sign_last(it: Repository) -> None:
    """Give the last commit a signature that somebody would have to look at."""
    text = it.git("cat-file", "commit", "HEAD")
    head, _, body = text.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{body}"
    made = subprocess.run(
        [GIT, "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=it.folder,
        input=signed.encode(),
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
    )
    it.git("update-ref", "HEAD", made.stdout.decode().strip())


def included_settings(it: Repository) -> None:
    it.write("evil.ini", f'[filter "evil"]\n clean = {it.trap}\n[core]\n fsmonitor = {it.trap}\n')
    it.write(".gitattributes", "* filter=evil\n")
    it.set("include.path=../evil.ini")


def settings_of_a_work_tree(it: Repository) -> None:
    it.set("extensions.worktreeConfig=true")
    it.write(".gitattributes", "* filter=evil\n")
    it.write(".git/config.worktree", f'[filter "evil"]\n clean = {it.trap}\n')


def fetching_what_is_missing(it: Repository) -> None:
    it.set(
        "extensions.partialClone=evil", "remote.evil.promisor=true", f"core.sshCommand={it.trap}"
    )
    it.set("remote.evil.url=ssh://evil.example/x", f"remote.evil.uploadpack={it.trap}")
    _lose_an_object(it)


def fetching_by_a_helper(it: Repository) -> None:
    it.set("protocol.ext.allow=always", "protocol.allow=always", "remote.evil.promisor=true")
    it.set("extensions.partialClone=evil", f"remote.evil.url=ext::{it.trap}")
    _lose_an_object(it)


def fetching_from_a_folder(it: Repository) -> None:
    it.set("extensions.partialClone=evil", "remote.evil.promisor=true")
    it.set(f"remote.evil.url={it.outside}", f"remote.evil.uploadpack={it.trap}")
    _lose_an_object(it)


def _lose_an_object(it: Repository) -> None:
    name = it.git("rev-parse", "HEAD:src/a.py").strip()
    (it.folder / ".git" / "objects" / name[:2] / name[2:]).unlink()


def a_submodule(it: Repository) -> None:
    other = it.folder.parent / "other"
    other.mkdir()
    it.git("init", "-q", "-b", "main", str(other))
    it.git("-C", str(other), "commit", "-q", "--allow-empty", "-m", "x")
    it.git("submodule", "--quiet", "add", str(other), "sub")
    it.commit("sub")
    for setting in ("core.fsmonitor", "diff.external", "filter.evil.clean"):
        it.git("-C", "sub", "config", setting, str(it.trap))
    it.write("sub/.gitattributes", "* filter=evil\n")
    it.set("diff.submodule=diff", "status.submoduleSummary=true", "submodule.recurse=true")
    it.set("submodule.sub.ignore=none", "diff.ignoreSubmodules=none")


def a_repository_within(it: Repository) -> None:
    it.git("init", "-q", "-b", "main", "inner")
    it.git("-C", "inner", "commit", "-q", "--allow-empty", "-m", "x")
    it.git("-C", "inner", "config", "core.fsmonitor", str(it.trap))
    it.git("add", "inner")
    it.git("commit", "-q", "-m", "inner")


TRAPS: dict[Callable[[Repository], None], str] = {
    fsmonitor: "a monitor of files, asked at each status",
    fsmonitor_of_the_second_kind: "the same with the newer protocol",
    hooks: "hooks where git looks for them",
    hooks_elsewhere: "hooks where the settings say",
    pager: "pagers",
    external_diff: "a program for every diff",
    diff_driver: "a program for the diff of some files",
    converter: "a program that makes text of files",
    clean_filter: "a filter that status and diff run on changed files",
    filter_process: "the same as a process, by attributes nobody sees",
    signatures: "a program that checks signatures",
    signatures_by_a_format: "the same by the default format",
    included_settings: "settings out of a file of the work tree",
    settings_of_a_work_tree: "settings of the work tree alone",
    fetching_what_is_missing: "a missing object, fetched with a command of the settings",
    fetching_by_a_helper: "the same by a helper that is any program",
    fetching_from_a_folder: "the same from a folder, served by a program of the settings",
    a_submodule: "settings of a submodule",
    a_repository_within: "settings of a repository within, added without a submodule's file",
}
NEED_THE_CHECK = {
    *(clean_filter, filter_process, included_settings, settings_of_a_work_tree),
}
"""What git has no switch for: there the list of settings is what keeps it from being run."""


@table("set_trap", TRAPS, ids=lambda trap: TRAPS[trap])
def test_no_program_of_the_repository_is_started(
    repository: Repository, set_trap: Callable[[Repository], None]
) -> None:
    set_trap(repository)
    repository.change()
    repository.sprung.unlink(missing_ok=True)

    unknown = repository.unknown_keys()
    assert not repository.sprung.exists(), "by listing the settings"
    if set_trap in NEED_THE_CHECK:
        assert unknown
        return
    for line in LINES:
        repository.run(line)
        assert not repository.sprung.exists(), line


@table("set_trap", [fsmonitor, external_diff, converter, clean_filter])
def test_the_traps_do_spring_for_plain_git(
    repository: Repository, set_trap: Callable[[Repository], None]
) -> None:
    set_trap(repository)
    repository.change()
    repository.sprung.unlink(missing_ok=True)

    repository.git("status")
    repository.git("diff")

    assert repository.sprung.exists()


def test_an_everyday_repository_has_no_unknown_settings(repository: Repository) -> None:
    repository.set("remote.origin.url=https://example.org/x", "branch.main.remote=origin")
    repository.set("remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*", "pull.rebase=true")
    repository.set("user.name=a", "core.autocrlf=input", "push.default=simple")

    assert repository.unknown_keys() == ()


@table(
    "key",
    [
        *("core.worktree", "core.sshcommand", "core.gitproxy", "core.alternaterefscommand"),
        *("filter.lfs.clean", "diff.x.command", "diff.x.textconv", "diff.external", "pager.log"),
        *("remote.x.promisor", "remote.x.uploadpack", "remote.x.vcs", "extensions.partialclone"),
        *("includeif.gitdir:/.path", "alias.st", "diff.orderfile", "pretty.x", "trailer.x.command"),
        *("gpg.ssh.defaultkeycommand", "sequence.editor", "mailmap.file", "core.askpass", "x.y"),
    ],
)
def test_a_setting_nobody_looked_at_is_unknown(key: str) -> None:
    assert unknown_keys(f"core.bare\0{key}\0user.name\0") == (key,)


# --- what is secret or outside --------------------------------------------------------------------


@table("line", [*LINES, "git show HEAD~1", "git diff HEAD~1..HEAD"])
def test_no_secret_file_is_shown(repository: Repository, line: str) -> None:
    repository.change()
    repository.commit("two")
    repository.write(".env", f"KEY={CANARY}-3\n")

    assert CANARY not in repository.run(line)


@pytest.mark.needs("rg", among=os.pathsep.join(FOLDERS))
@table("line", ["rg canary", "rg -i CANARY .", "rg --files", "rg -c . deploy src"])
def test_no_secret_file_is_found_in_folders(repository: Repository, line: str) -> None:
    for name in ("id_rsa", "keys.PEM", "sub/.ssh/x", "old.env", "server.key~", "sub/x.kdbx"):
        repository.write(name, CANARY)
    repository.write(".ripgreprc", "--hidden\n--no-ignore\n")
    (repository.folder / "link").symlink_to(repository.outside)
    (repository.folder / "file").symlink_to(repository.outside / "secret.txt")

    said = repository.run(line, program="rg")
    assert CANARY not in said
    assert "PEM" not in said
    assert "src/a.py" in repository.run("rg one", program="rg")


def test_a_secret_files_hash_shows_nothing_of_it(repository: Repository) -> None:
    name = repository.git("rev-parse", "HEAD:.env").strip()

    for line in (f"git show {name}", f"git diff {name} {name[:10]}", f"git log -p {name}"):
        assert CANARY not in repository.run(line)


def test_changes_of_plain_files_are_shown(repository: Repository) -> None:
    repository.change()

    assert "+one = 2" in repository.run("git diff")
    assert "+one = 1" in repository.run("git show HEAD")
    assert "+one = 1" in repository.run("git log -p")
    assert "src/a.py" in repository.run("git status")


def test_a_bare_repository_among_the_files_is_none(repository: Repository) -> None:
    evil = repository.folder / "evil"
    repository.git("init", "-q", "--bare", "evil")
    repository.git("-C", "evil", "config", "core.fsmonitor", str(repository.trap))
    repository.git("-C", "evil", "config", "core.worktree", str(repository.outside))
    repository.git("-C", "evil", "config", "core.bare", "false")

    said = repository.run("git status -uall", folder=evil)

    assert not repository.sprung.exists()
    assert "secret.txt" not in said


def test_a_work_tree_outside_is_an_unknown_setting(repository: Repository) -> None:
    repository.set(f"core.worktree={repository.outside}")

    assert repository.unknown_keys() == ("core.worktree",)
