"""Which files count, from git or without it; and git configuration of a stranger runs nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from midstream.codemap.source_files import count_changes, list_files, read_regular


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_git_says_which_files_there_are(tmp_path: Path) -> None:
    write(tmp_path, _gitignore="*.log\n", a_py="", b_log="", sub__c_py="")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.py")

    assert list_files(tmp_path) == (".gitignore", "a.py", "sub/c.py")


def test_without_git_the_ignore_files_say_it_and_the_deeper_one_wins(tmp_path: Path) -> None:
    write(
        tmp_path,
        _gitignore="*.log\nout/\n",
        a_py="",
        b_log="",
        out__c_py="",
        sub___gitignore="!keep.log\n",
        sub__keep_log="",
        sub__other_log="",
    )
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.js").write_text("")

    assert list_files(tmp_path) == (
        ".gitignore",
        "a.py",
        "sub/.gitignore",
        "sub/keep.log",
    )


def test_a_folder_that_git_ignores_whole_is_walked(tmp_path: Path) -> None:
    write(tmp_path, _gitignore="scratch/\n", scratch__a_py="")
    git(tmp_path, "init", "-q")

    assert list_files(tmp_path / "scratch") == ("a.py",)


def test_changes_are_commits_that_touch_a_file_below_the_folder(tmp_path: Path) -> None:
    write(tmp_path, a_py="1", sub__b_py="1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    write(tmp_path, a_py="2", sub__b_py="2")
    git(tmp_path, "commit", "-qam", "two")
    write(tmp_path, a_py="3")
    git(tmp_path, "commit", "-qam", "three")

    assert count_changes(tmp_path, commits=100) == (3, {"a.py": 3, "sub/b.py": 2})
    assert count_changes(tmp_path / "sub", commits=100) == (2, {"b.py": 2})
    assert count_changes(tmp_path, commits=1) == (1, {"a.py": 1})


def test_names_that_git_would_quote_are_plain(tmp_path: Path) -> None:
    name = 'wéird "n" \t.py'
    (tmp_path / name).write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")

    assert list_files(tmp_path) == (name,)
    assert count_changes(tmp_path, commits=5) == (1, {name: 1})


def test_no_history_is_none(tmp_path: Path) -> None:
    assert count_changes(tmp_path, commits=5) is None

    git(tmp_path, "init", "-q")

    assert count_changes(tmp_path, commits=5) is None


def test_a_repositorys_configuration_runs_nothing(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    write(repository, a_txt="1", _gitattributes="*.txt diff=evil filter=evil\n")
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    write(repository, a_txt="2")
    git(repository, "commit", "-qam", "two")
    sign(repository)
    trap = tmp_path / "trap.sh"
    sprung = tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\necho ran >> {sprung}\nexit 1\n")
    trap.chmod(0o755)
    config = repository / ".git" / "config"
    with config.open("a") as file:
        file.write(
            f"[core]\n fsmonitor = {trap}\n hooksPath = {tmp_path}\n pager = {trap}\n"
            f" editor = {trap}\n sshCommand = {trap}\n"
            f'[diff]\n external = {trap}\n[diff "evil"]\n textconv = {trap}\n command = {trap}\n'
            f"[log]\n showSignature = true\n[gpg]\n program = {trap}\n[pager]\n log = {trap}\n"
        )

    assert list_files(repository) == (".gitattributes", "a.txt")
    assert count_changes(repository, commits=9) == (2, {".gitattributes": 1, "a.txt": 2})
    assert not sprung.exists()


def sign(repository: Path) -> None:
    """Give the last commit a signature, so that git has something to run a program on."""

    def said(*arguments: str, stdin: str = "") -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=repository, input=stdin, capture_output=True, text=True, check=True
        )
        return done.stdout

    head, _, message = said("cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----"
    signed = said(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{head}\n{signature}\n\n{message}"
    )
    said("update-ref", "HEAD", signed.strip())


def test_the_trap_above_would_catch_a_bare_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    sprung = tmp_path / "sprung"
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho ran >> {sprung}\nexit 1\n")
    trap.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(trap))

    subprocess.run(["git", "status"], cwd=tmp_path, capture_output=True, check=True)

    assert sprung.exists()


def test_what_git_variables_point_at_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, other__x_py="", here__a_py="")
    for name in ("other", "here"):
        git(tmp_path / name, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))

    assert list_files(tmp_path / "here") == ("a.py",)


def test_only_regular_files_inside_are_read(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    write(tmp_path, secret_txt="secret", inside__a_txt="words")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "near.txt").symlink_to(inside / "a.txt")
    (inside / "folder").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")

    def read(path: str) -> bytes | None:
        return read_regular(inside, path, max_bytes=10)

    assert read("a.txt") == b"words"
    for path in ("link.txt", "near.txt", "folder/secret.txt", "../secret.txt", "pipe", "gone"):
        assert read(path) is None, path


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, a_txt="12345")

    assert read_regular(tmp_path, "a.txt", max_bytes=5) == b"12345"
    assert read_regular(tmp_path, "a.txt", max_bytes=4) is None
