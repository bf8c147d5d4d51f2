"""The profile of macOS's sandbox, read as the kernel reads it; and how it is run, with a fake."""

import json
import os
import re
import stat
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

import pytest

from midstream.system.supervisor import Child
from midstream.tools.sandbox import bwrap, probes
from midstream.tools.sandbox.guarded_files import Guarded
from midstream.tools.sandbox.launch import Inside
from midstream.tools.sandbox.masks import Masks
from midstream.tools.sandbox.proxy import Proxy
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.sandbox.seatbelt import TRIED, Allowed, Seatbelt, found_seatbelt, profile_of

Rule: TypeAlias = "str | list[Rule]"

ROOT = "/Users/ada/work/project"
PLAIN = Allowed(workspace=ROOT, scratch="/private/var/folders/x/T/midstream-sandbox-1")

TOKEN = re.compile(r'\s*(?:([()])|"((?:[^"\\]|\\.)*)"|([^\s()"]+))', re.DOTALL)


def read(text: str) -> list[Rule]:
    """Return the rules of a profile as lists; what is no such list is an error."""
    open_lists: list[list[Rule]] = [[]]
    at = 0
    while at < len(text.rstrip()):
        token = TOKEN.match(text, at)
        assert token is not None, text[at : at + 40]
        at = token.end()
        bracket, quoted, word = token.groups()
        if bracket == "(":
            open_lists.append([])
        elif bracket == ")":
            whole = open_lists.pop()
            open_lists[-1].append(whole)
        else:
            open_lists[-1].append(re.sub(r"\\(.)", r"\1", quoted) if word is None else word)
    assert len(open_lists) == 1
    return open_lists[0]


def fits(wanted: list[Rule], path: str) -> bool:
    kind, value = wanted
    assert isinstance(value, str)
    match kind:
        case "literal":
            return path == value
        case "subpath":
            return path == value or path.startswith(f"{value}/")
        case "regex":
            return re.search(value, path) is not None
    return False


def is_allowed(profile: str, operation: str, path: str = "") -> bool:
    """Return whether a profile allows an operation on a path: the last rule that fits says so."""
    answer = False
    for rule in read(profile):
        assert isinstance(rule, list)
        verb, *words = rule
        operations = [word for word in words if isinstance(word, str)]
        filters = [word for word in words if isinstance(word, list)]
        named = operations == ["default"] or any(
            fnmatchcase(operation, each) for each in operations
        )
        about = not filters or any(len(each) == 2 and fits(each, path) for each in filters)
        if verb != "version" and named and about:
            answer = verb == "allow"
    return answer


def test_the_profile_reads_downwards() -> None:
    lines = profile_of(PLAIN).splitlines()

    assert lines[:4] == [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork sysctl-read ipc-posix-sem)",
        "(allow signal process-info* (target same-sandbox))",
    ]
    assert lines[-9:] == [
        "(allow file-read* file-write*",
        f'  (subpath "{ROOT}")',
        '  (subpath "/private/var/folders/x/T/midstream-sandbox-1"))',
        "(deny file-write-setugid)",
        "(deny file-write*",
        r'  (regex "^/Users/ada/work/project/\\.[gG][iI][tT](/|$)")',
        r'  (regex "^/Users/ada/work/project/\\.[mM][iI][dD][sS][tT][rR][eE][aA][mM](/|$)"))',
        "(deny file-write-unlink",
        f'  (literal "{ROOT}"))',
    ]


@pytest.mark.parametrize(
    ("operation", "path", "may"),
    [
        ("file-read-data", f"{ROOT}/src/app.py", True),
        ("file-write-create", f"{ROOT}/src/new.py", True),
        ("file-write-data", f"{PLAIN.scratch}/x", True),
        ("file-read-data", "/usr/lib/libSystem.dylib", True),
        ("file-write-data", "/dev/null", True),
        ("file-read-metadata", "/Users/ada", True),
        ("file-read-data", "/Users/ada", False),
        ("file-read-data", "/Users/ada/.ssh/id_ed25519", False),
        ("file-read-data", f"{ROOT}-other/secret", False),
        ("file-read-data", "/private/etc/master.passwd", False),
        ("file-read-data", "/Library/Keychains/System.keychain", False),
        ("file-write-create", "/Users/ada/.zshrc", False),
        ("file-write-create", "/usr/local/bin/x", False),
        ("file-write-mode", "/dev/null", False),
        ("file-write-setugid", f"{ROOT}/x", False),
        ("file-write-create", f"{ROOT}/.git", False),
        ("file-write-create", f"{ROOT}/.GIT/hooks/pre-commit", False),
        ("file-write-unlink", f"{ROOT}/.midstream", False),
        ("file-read-data", f"{ROOT}/.git/config", True),
        ("file-write-create", f"{ROOT}/.gitignore", True),
        ("file-write-unlink", ROOT, False),
        ("network-outbound", "", False),
        ("network-bind", "", False),
        ("mach-register", "", False),
        ("process-exec", "", True),
    ],
)
def test_what_a_command_may_do(operation: str, path: str, may: bool) -> None:
    assert is_allowed(profile_of(PLAIN), operation, path) == may


def test_what_is_locked_stays_where_it_is() -> None:
    profile = profile_of(
        Allowed(
            workspace=ROOT,
            scratch="/s",
            locked=("sub/deep/.vscode",),
            unseen=(f"{ROOT}/.env", f"{ROOT}/kept/away"),
        )
    )

    assert not is_allowed(profile, "file-write-data", f"{ROOT}/sub/deep/.vscode/tasks.json")
    assert is_allowed(profile, "file-read-data", f"{ROOT}/sub/deep/.vscode/tasks.json")
    for folder in ("sub", "sub/deep", "kept"):
        assert not is_allowed(profile, "file-write-unlink", f"{ROOT}/{folder}"), folder
    assert is_allowed(profile, "file-write-unlink", f"{ROOT}/sub/deep/other")
    for name in (".env", "kept/away/x"):
        assert not is_allowed(profile, "file-read-data", f"{ROOT}/{name}"), name
        assert not is_allowed(profile, "file-write-create", f"{ROOT}/{name}"), name


def test_the_network_is_open_only_where_it_is_granted() -> None:
    granted = profile_of(Allowed(workspace=ROOT, scratch="/s", network=True))

    assert is_allowed(granted, "network-outbound")
    assert is_allowed(granted, "file-read-data", "/private/etc/resolv.conf")
    assert not is_allowed(profile_of(PLAIN), "file-read-data", "/private/etc/resolv.conf")


HOSTILE = (
    '/w/a") (allow file-read* (subpath "/',
    "/w/back\\",
    '/w/both\\"',
    "/w/new\nline",
    "/w/(version 1)",
    "/w/; no comment",
    "/w/[.*]+$^|{}?",
    "/w/é漢字",
)


@pytest.mark.parametrize("root", HOSTILE)
def test_a_name_is_a_name_whatever_is_in_it(root: str) -> None:
    plain = read(
        profile_of(Allowed(workspace="/w/x", scratch="/s", locked=("l",), unseen=("/w/u",)))
    )
    profile = profile_of(
        Allowed(workspace=root, scratch="/s", locked=(f"l{root[2:]}",), unseen=(f"{root}/u",))
    )

    rules = read(profile)

    assert [rule[:2] for rule in rules] == [rule[:2] for rule in plain]
    assert is_allowed(profile, "file-write-create", f"{root}/x")
    assert not is_allowed(profile, "file-write-create", f"{root}/.git/x")
    assert not is_allowed(profile, "file-write-create", f"{root}/l{root[2:]}")
    assert not is_allowed(profile, "file-read-data", "/etc/master.passwd")


# --- running it -------------------------------------------------------------------------------


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """Return the file in which the program writes down what it was started with."""
    return tmp_path / "argv"


@pytest.fixture
def program(tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a `sandbox-exec` that holds nothing: it writes down its arguments and runs the command."""
    path = tmp_path / "sandbox-exec"
    path.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\n"
        f"open({str(said)!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        "os.execv(sys.argv[3], sys.argv[3:])\n"
    )
    path.chmod(0o755)
    monkeypatch.setattr(bwrap, "_weakness", lambda path: "")
    return str(path)


@pytest.fixture
def belt(program: str) -> Seatbelt:
    found = found_seatbelt((program,))
    assert isinstance(found, Seatbelt)
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".env").write_text("KEY=1")
    return folder


def test_a_program_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "sandbox-exec"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o777)

    assert "is not used" in str(found_seatbelt((str(path),)))
    assert found_seatbelt(("/nonexistent/sandbox-exec",)) == "sandbox-exec is not there."


def test_a_command_runs_with_its_profile_and_nothing_of_it_stays(
    belt: Seatbelt, workspace: Path, said: Path
) -> None:
    inside = Inside(
        workspace=workspace,
        guarded=Guarded(locked=("Makefile",), sockets=("door",)),
        masks=Masks(names=("customers",)),
    )
    ready = belt.prepared(
        inside,
        ["/bin/sh", "-c", 'echo "$TMPDIR $SECRET_KEY"; echo x > "$TMPDIR/x"'],
        {**os.environ, "SECRET_KEY": "hunter2"},
        {"TAG": "1"},
    )
    child = Child((), folder=workspace, environment={}, box=lambda *_: ready)
    child.listen()
    printed = b""
    while not child.is_silent:
        child.wait(60.0)
        printed += child.read()
    child.end()

    flag, profile, *argv = json.loads(said.read_text())
    scratch = printed.decode().strip()
    assert (flag, argv[0], child.exit_code) == ("-p", "/bin/sh", 0)
    assert not Path(scratch).exists()
    assert is_allowed(profile, "file-write-create", f"{scratch}/x")
    for name in (".env", "customers", "door"):
        assert not is_allowed(profile, "file-read-data", f"{workspace}/{name}"), name
    for name in ("Makefile", ".git/config"):
        assert not is_allowed(profile, "file-write-data", f"{workspace}/{name}"), name
    assert not is_allowed(profile, "network-outbound")
    assert (ready.environment["TAG"], "SECRET_KEY" in ready.environment) == ("1", False)


def test_some_hosts_and_not_others_is_more_than_it_can(belt: Seatbelt, workspace: Path) -> None:
    inside = Inside(workspace=workspace, proxy=object.__new__(Proxy))

    with pytest.raises(OSError, match="any host or none"):
        belt.prepared(inside, ["/bin/true"], {}, {})


def test_one_that_holds_nothing_is_measured_as_none(
    belt: Seatbelt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "found_box", lambda places: belt)

    result = probes.measured(tmp_path / "state")

    assert result.level == "none"
    assert "cannot read outside: a file outside was opened" in result.why
    assert {probe.name for probe in result.probes if not probe.held} >= {*probes._LEAST}


def test_one_that_holds_all_that_is_tried_is_partial(
    belt: Seatbelt, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "found_box", lambda places: belt)
    tried = json.dumps([[name, True, ""] for name in TRIED])
    Path(program).write_text(f"#!/bin/sh\necho '{tried}'\n")
    assert os.stat(program).st_mode & stat.S_IXUSR

    result = Sandbox(tmp_path / "state").measure()

    assert (result.level, result.why) == (
        "partial",
        "everything ends with the command: it ran on",
    )
