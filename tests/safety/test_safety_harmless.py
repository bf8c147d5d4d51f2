"""How a command that only looks is started: nothing as it was written, everything as it was looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.command_line import read_command
from midstream.safety.read_only_commands import ENVIRONMENT, FOLDERS, is_harmless, prepared


def arguments_of(line: str) -> tuple[str, ...]:
    known = prepared(read_command(line).argv)
    assert known is not None
    return known.arguments


def test_the_program_is_the_systems_and_the_environment_ours() -> None:
    known = prepared(("ls", "-la"))

    assert known is not None
    assert known.programs == tuple(f"{folder}/ls" for folder in FOLDERS)
    assert all(program.startswith("/") for program in known.programs)
    assert known.environment == ENVIRONMENT
    assert not known.needs_git_check


def test_files_stand_behind_the_end_of_the_flags() -> None:
    assert arguments_of("cat -n a.py b.py") == ("-n", "--", "a.py", "b.py")
    assert arguments_of("head a.py -n 5") == ("-n5", "--", "a.py")
    assert not is_harmless(("wc", "--", "-x"))


def test_what_has_to_be_checked_on_the_disk_is_named() -> None:
    known = prepared(("rg", "-n", "needle", "src", "docs"))

    assert known is not None
    assert known.paths == ("src", "docs")
    assert known.reads_below


def test_a_search_leaves_out_secret_files_and_every_setting() -> None:
    arguments = arguments_of("rg -e needle")

    assert arguments[0] == "--no-config"
    assert {"--iglob=!.env", "--iglob=!*.pem", "--iglob=!.ssh", "--iglob=!id_rsa"} <= {*arguments}
    assert arguments[-3:] == ("--regexp=needle", "--", ".")


def test_the_first_word_of_a_search_is_what_is_looked_for_even_if_it_looks_like_a_path() -> None:
    known = prepared(("grep", "-n", "../x", "a.py"))

    assert known is not None
    assert known.paths == ("a.py",)
    assert known.arguments[-3:] == ("--regexp=../x", "--", "a.py")


@pytest.mark.parametrize("line", ["git status", "git diff", "git log -3", "git show", "git branch"])
def test_git_is_started_with_everything_off_that_starts_programs(line: str) -> None:
    known = prepared(read_command(line).argv)

    assert known is not None
    settings = {
        value
        for flag, value in zip(known.arguments, known.arguments[1:], strict=False)
        if flag == "-c"
    }
    assert settings >= {
        *("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"),
        *("log.showSignature=false", "gpg.program=false", "submodule.recurse=false"),
    }
    assert {"--no-pager", "--no-optional-locks"} <= {*known.arguments}
    assert known.environment["GIT_ALLOW_PROTOCOL"] == "none"
    assert known.environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert known.needs_git_check


@pytest.mark.parametrize("line", ["git diff", "git log -p", "git show", "git log --stat"])
def test_changes_are_shown_without_drivers(line: str) -> None:
    assert {"--no-ext-diff", "--no-textconv", "--ignore-submodules=all"} <= {*arguments_of(line)}


@pytest.mark.parametrize("line", ["git diff", "git log -p", "git show HEAD -- src", "git log -U3"])
def test_changes_leave_out_secret_files(line: str) -> None:
    arguments = arguments_of(line)

    assert ":(top,exclude,icase,glob)**/.env" in arguments[arguments.index("--") :]


def test_a_revision_can_only_be_a_commit() -> None:
    assert "HEAD~1^{commit}..main^{commit}" in arguments_of("git diff HEAD~1..main")
    assert "abc1234^{commit}" in arguments_of("git show abc1234")


def test_a_log_without_changes_is_the_whole_log() -> None:
    assert arguments_of("git log --oneline")[-1] == "--"


ARGUMENTS = st.lists(
    st.sampled_from(
        [
            *(
                "-n",
                "-5",
                "--",
                "-p",
                "-e",
                "x",
                "src",
                "a.py",
                "HEAD",
                "--stat",
                "-la",
                "-rf",
                "-o",
            ),
            *(".env", "../x", "/etc/passwd", "--output=x", "--pre", "sh", "-c", "HEAD:.env", "-f"),
            *(
                "--format=%H",
                "--format=%G?",
                "a..b",
                "..",
                ".",
                "",
                "-",
                "~",
                ":x",
                "id_rsa",
                "--no",
            ),
        ]
    )
    | st.text(max_size=6),
    max_size=6,
)
PROGRAMS = st.sampled_from(["git", "rg", "grep", "ls", "cat", "head", "tail", "wc", "stat", "pwd"])
GIT = st.sampled_from(["status", "diff", "log", "show", "ls-files", "branch", "push", "-C", ""])


@given(PROGRAMS, GIT, ARGUMENTS)
def test_whatever_is_harmless_names_nothing_outside_or_secret(
    program: str, command: str, arguments: list[str]
) -> None:
    argv = (program, command, *arguments) if program == "git" else (program, *arguments)
    known = prepared(argv)
    if known is None:
        return

    for path in known.paths:
        assert not path.startswith(("/", "-", ":"))
        assert ".." not in path.split("/")
        assert path not in (".env", "id_rsa")
    ended = known.arguments.index("--") if "--" in known.arguments else len(known.arguments)
    own = {*known.arguments[:ended]}
    assert not own & {"-f", "--pre", "sh", "--output=x", "--format=%G?", "-rf", "HEAD:.env"}
