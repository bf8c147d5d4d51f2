"""What a stranger can put where `.midstream/` is looked for: links, pipes, devices, names, swaps.

Each case prepares a folder; `status` must come to an end without following, waiting or failing, and
name as active only files of the folder's own, in names that can be shown on one line.
"""

import os
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tables import table

from midstream.app.assembly import Options
from midstream.cli.language import init_workflow
from midstream.config.commands import written_commands
from midstream.config.manager import ConfigManager
from midstream.config.trust import (
    Grant,
    TrustStatus,
    TrustStore,
    granted,
    session_grant,
)
from midstream.config.trust_preview import difference, enables
from midstream.language.errors import MidstreamError, NotTrusted, UserMistake
from midstream.tools.user_tools import load_user_tools

CANARY = "c4nary-of-the-persons-home"


class Stranger:
    """A folder a stranger has filled, beside a home with secrets."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.work = base / "repo"
        self.inside = self.work / ".midstream"
        self.store = TrustStore(base / "state")
        (self.home / ".ssh").mkdir(parents=True)
        self.secret = self.home / ".ssh" / "id_ed25519"
        self.secret.write_text(CANARY)
        self.work.mkdir()

    def put(self, name: str, text: str = "{}") -> Path:
        path = self.inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def link(self, name: str, target: str | Path) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def special(self, name: str, make: Callable[[str], object]) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make(str(path))

    def status(self) -> TrustStatus:
        return self.store.status(self.work)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    made = Stranger(tmp_path.resolve())
    yield made
    # Python's own way of removing folders is too shallow for some of these.
    subprocess.run(["rm", "-rf", str(made.work)], check=True)


def nested(s: Stranger, depth: int) -> None:
    """Make folders in folders, by descriptors: their path is longer than any path may be."""
    (s.inside / "workflows").mkdir(parents=True)
    at = os.open(s.inside / "workflows", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=at)
        below = os.open("a", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("script.py", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def unix_socket(path: str) -> None:
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.basename(path))
    finally:
        os.chdir(here)


def sparse(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(2**40)


def beside(s: Stranger, folder: str) -> None:
    place = s.work.parent / folder
    place.mkdir(parents=True)
    (place / "application.json").write_text("{}")


def linked_beside(s: Stranger) -> None:
    (s.home / "commands").mkdir()
    (s.home / "commands" / "a.md").write_text(CANARY)
    s.link(".claude", s.home)


def raw(s: Stranger, name: bytes) -> None:
    folder = os.fsencode(s.inside / "workflows") + b"/" + name
    os.makedirs(folder)
    Path(os.fsdecode(folder + b"/script.py")).write_text("x = 1")


PLACES: dict[str, tuple[Callable[[Stranger], object], tuple[str, ...]]] = {
    ".midstream is a link to a folder elsewhere": (lambda s: s.link(".midstream", s.home), ()),
    ".midstream is a link to itself": (lambda s: s.link(".midstream", ".midstream"), ()),
    ".midstream is a link to nothing": (lambda s: s.link(".midstream", "gone"), ()),
    ".midstream is a link to the root": (lambda s: s.link(".midstream", "/"), ()),
    ".midstream is a link to the workspace": (lambda s: s.link(".midstream", "."), ()),
    ".midstream is a file": (lambda s: s.special(".midstream", os.mknod), ()),
    ".midstream is a named pipe": (lambda s: s.special(".midstream", os.mkfifo), ()),
    ".midstream is a socket": (lambda s: s.special(".midstream", unix_socket), ()),
    "the settings are a link to a secret": (
        lambda s: s.link(".midstream/application.json", s.secret),
        (),
    ),
    "the settings are a named pipe nobody writes to": (
        lambda s: s.special(".midstream/application.json", os.mkfifo),
        (),
    ),
    "the settings are a link to a device without end": (
        lambda s: s.link(".midstream/application.json", "/dev/zero"),
        (),
    ),
    "the settings are a link into the kernel": (
        lambda s: s.link(".midstream/application.json", "/proc/self/environ"),
        (),
    ),
    "the settings are a folder": (
        lambda s: (s.inside / "application.json").mkdir(parents=True),
        (),
    ),
    "the settings are a terabyte of nothing": (lambda s: sparse(s.inside / "application.json"), ()),
    "a script of a terabyte": (lambda s: sparse(s.inside / "workflows" / "w" / "script.py"), ()),
    "the tools are a link to the person's home": (lambda s: s.link(".midstream/tools", s.home), ()),
    "a workflow's folder is a link": (
        lambda s: s.link(".midstream/workflows/w", s.home / ".ssh"),
        (),
    ),
    "a script is a link to a secret": (
        lambda s: s.link(".midstream/workflows/w/script.py", s.secret),
        (),
    ),
    "a script is a link through the kernel's magic": (
        lambda s: s.link(".midstream/workflows/w/script.py", "/proc/self/root/etc/passwd"),
        (),
    ),
    "a role is a socket": (lambda s: s.special(".midstream/roles/r.json", unix_socket), ()),
    "a tool with a newline in its name": (lambda s: s.put("tools/a\nb.py", ""), ()),
    "a tool with an escape sequence in its name": (lambda s: s.put("tools/\x1b[2J.py", ""), ()),
    "a tool whose name is drawn from right to left": (
        lambda s: s.put("tools/\u202eyp.txt.py", ""),
        (),
    ),
    "a folder with a newline that looks like another row": (
        lambda s: s.put("workflows/w\n  safe.json  2 bytes/script.py", ""),
        (),
    ),
    "a folder with an escape sequence in its name": (
        lambda s: s.put("workflows/\x1b[1A\x1b[2K/script.py", ""),
        (),
    ),
    "a folder with an invisible name": (lambda s: s.put("tools/\u2060\u200b/evil.py", ""), ()),
    "a folder whose name is not UTF-8": (lambda s: raw(s, b"\xff\xfe"), ()),
    "a tag character in a name": (lambda s: s.put("tools/a\U000e0041.py", ""), ()),
    "folders within folders, thousands deep": (lambda s: nested(s, 1_500), ()),
    "another spelling of the folder": (lambda s: beside(s, "repo/.Midstream"), ()),
    "other spellings within it": (
        lambda s: [
            s.put(f"{name}/x.py", "") for name in ("Tools", "TOOLS", "tool", "t\u00f6\u00f6ls")
        ],
        (),
    ),
    "the settings in other spellings": (
        lambda s: [s.put(f"{name}") for name in ("Application.json", "application.JSON", "x.json")],
        (),
    ),
    "a .midstream in a folder below": (lambda s: beside(s, "repo/sub/.midstream"), ()),
    "a .midstream in the folder above": (lambda s: beside(s, ".midstream"), ()),
    "a compiled file beside a script": (
        lambda s: s.put("workflows/w/__pycache__/script.cpython-311.pyc", "evil"),
        ("workflows/w/__pycache__/script.cpython-311.pyc",),
    ),
    "a compiled module in place of a tool": (
        lambda s: s.put("tools/a.so", "\x7fELF"),
        ("tools/a.so",),
    ),
    "a hidden file of code": (lambda s: s.put("tools/.a.py", ""), ("tools/.a.py",)),
    "a command is a link to a secret": (
        lambda s: s.link(".midstream/commands/a.md", s.secret),
        (),
    ),
    "a command of another program is a link to a secret": (
        lambda s: s.link(".claude/commands/a.md", s.secret),
        (),
    ),
    "the commands of another program are a link": (
        lambda s: s.link(".claude/commands", s.home / ".ssh"),
        (),
    ),
    "the folder of another program is a link": (linked_beside, ()),
    "a command is a named pipe": (lambda s: s.special(".claude/commands/a.md", os.mkfifo), ()),
    "a command whose name is drawn from right to left": (
        lambda s: s.put("commands/\u202edm.a.md", "x"),
        (),
    ),
    "a command with an escape sequence in its name": (
        lambda s: s.put("commands/\x1b[2J.md", "x"),
        (),
    ),
    "a SKILL.md is a link to a secret": (
        lambda s: s.link(".claude/skills/a/SKILL.md", s.secret),
        (),
    ),
    "a skill's folder is a link": (lambda s: s.link(".midstream/skills/a", s.home / ".ssh"), ()),
    "a file of a skill is a link through the kernel's magic": (
        lambda s: s.link(".midstream/skills/a/b.md", "/proc/self/environ"),
        (),
    ),
    "a skill of a terabyte": (lambda s: sparse(s.inside / "skills" / "a" / "SKILL.md"), ()),
    "a skill whose name is drawn from right to left": (
        lambda s: s.put("skills/\u202ea/SKILL.md", "x"),
        (),
    ),
    "settings of another program with commands to run": (
        lambda s: s.put("../.claude/settings.json", '{"hooks": {}}'),
        (),
    ),
}


def test_there_are_many() -> None:
    assert len(PLACES) >= 35


@table("tries", PLACES)
def test_nothing_that_is_not_the_folders_own_is_active(stranger: Stranger, tries: str) -> None:
    make, active = PLACES[tries]
    make(stranger)

    status = stranger.status()

    assert tuple(file.name for file in status.files) == active
    assert status.kind == ("untrusted" if active else "no_files")
    assert granted(status) is None
    assert all(line.isprintable() for line in status.left_out)
    given = stranger.store.grant(status)
    assert all(CANARY.encode() not in given.read(name) for name in given.files)


@table("tries", PLACES)
def test_beside_ordinary_files_it_takes_no_part(stranger: Stranger, tries: str) -> None:
    make, active = PLACES[tries]
    make(stranger)
    if os.path.lexists(stranger.inside) and not stat.S_ISDIR(os.lstat(stranger.inside).st_mode):
        stranger.inside.unlink()  # there is no room beside it
    stranger.put("workflows/honest.json")

    assert {file.name for file in stranger.status().files} == {"workflows/honest.json", *active}


def test_too_many_folders_are_refused_rather_than_walked(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstream.config.trust.MAX_ENTRIES", 50)
    for number in range(60):
        (stranger.inside / "workflows" / str(number)).mkdir(parents=True)

    with pytest.raises(UserMistake, match="too much to look through"):
        stranger.status()


# --- between the yes and the use -------------------------------------------------------------------


def rewritten(s: Stranger) -> None:
    s.put("tools/t.py", "evil = 1")


def same_size_and_time(s: Stranger) -> None:
    path = s.inside / "tools" / "t.py"
    before = path.stat()
    path.write_text("x = 2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def by_a_link(s: Stranger) -> None:
    path = s.inside / "tools" / "t.py"
    path.unlink()
    path.symlink_to(s.secret)


def by_a_pipe(s: Stranger) -> None:
    path = s.inside / "tools" / "t.py"
    path.unlink()
    os.mkfifo(path)


def by_a_folder(s: Stranger) -> None:
    path = s.inside / "tools" / "t.py"
    path.unlink()
    path.mkdir()


def the_folder_by_a_link(s: Stranger) -> None:
    (s.inside / "tools").rename(s.work / "moved")
    (s.inside / "tools").symlink_to(s.work / "moved")
    (s.work / "moved" / "t.py").write_text("evil = 1")


def the_whole_by_a_link(s: Stranger) -> None:
    s.inside.rename(s.work / "moved")
    s.inside.symlink_to(s.work / "moved")


def the_workspace_by_a_link(s: Stranger) -> None:
    other = s.work.with_name("evil")
    (other / ".midstream" / "tools").mkdir(parents=True)
    (other / ".midstream" / "tools" / "t.py").write_text("evil = 1")
    s.work.rename(s.work.with_name("moved"))
    s.work.symlink_to(other)


def by_nothing(s: Stranger) -> None:
    (s.inside / "tools" / "t.py").unlink()


def emptied(s: Stranger) -> None:
    s.put("tools/t.py", "")


def one_byte_more(s: Stranger) -> None:
    s.put("tools/t.py", "x = 1\n")


SWAPS: dict[str, Callable[[Stranger], None]] = {
    "the file is written anew": rewritten,
    "the file is another of the same size and time": same_size_and_time,
    "the file is a link to a secret": by_a_link,
    "the file is a pipe": by_a_pipe,
    "the file is a folder": by_a_folder,
    "its folder is a link": the_folder_by_a_link,
    ".midstream is a link": the_whole_by_a_link,
    "the workspace is a link to another": the_workspace_by_a_link,
    "the file is gone": by_nothing,
    "the file is empty": emptied,
    "the file has one byte more": one_byte_more,
}


@table("tries", SWAPS)
def test_what_is_swapped_after_the_yes_is_not_run(
    stranger: Stranger, tries: str, tmp_path: Path
) -> None:
    stranger.put("tools/t.py", "x = 1")
    config = ConfigManager(stranger.work, environ={"MIDSTREAM_CONFIG_HOME": str(tmp_path / "c")})
    config.trust(session_grant(stranger.status()))
    files = config.tool_files()
    SWAPS[tries](stranger)

    tools, problems = load_user_tools(files, read=config.read)

    assert tools == ()
    assert len(problems) == 1, "it was imported"
    assert CANARY not in str(problems)


@table("tries", SWAPS)
def test_a_yes_to_what_was_shown_is_none_to_what_is_there(stranger: Stranger, tries: str) -> None:
    stranger.put("tools/t.py", "x = 1")
    shown = stranger.status()
    SWAPS[tries](stranger)
    stranger.store.grant(shown)
    now = stranger.status()

    assert now.kind in ("changed", "no_files", "untrusted")
    assert granted(now) is None


def test_trust_of_a_folder_is_none_of_those_around_it(stranger: Stranger, tmp_path: Path) -> None:
    stranger.put("tools/t.py", "x = 1")
    stranger.store.grant(stranger.status())
    for folder in (stranger.work / "sub", stranger.work.parent, stranger.work.with_name("repo2")):
        inside = folder / ".midstream" / "tools"
        inside.mkdir(parents=True)
        (inside / "t.py").write_text("x = 1")

        status = stranger.store.status(folder)

        assert status.kind == "untrusted"
        config = ConfigManager(folder, environ={"MIDSTREAM_CONFIG_HOME": str(tmp_path / "c")})
        assert config.tool_files() == ()
        with pytest.raises(NotTrusted):
            config.read(inside / "t.py")


# --- what is shown before the yes -----------------------------------------------------------------

SHOWN: dict[str, tuple[str, bytes]] = {
    "a setting that looks like rows of ours": (
        "application.json",
        b'{"x\\nThis workspace is safe. Press t.": 1}',
    ),
    "a server whose name and words hold newlines": (
        "application.json",
        b'{"mcpServers": {"a\\nb": {"command": "x\\r\\ny", "args": ["\\n"]}}}',
    ),
    "a role whose tools hold newlines": ("roles/r.json", b'{"tools": ["a\\nb", "\\r\\nc"]}'),
    "a thousand tools": ("roles/r.json", b'{"tools": [' + b'"x",' * 1_000 + b'"y"]}'),
    "JSON nested without end": ("workflows/w.json", b"[" * 100_000),
    "objects nested without end": ("workflows/w.json", b'{"tools":' * 100_000),
    "no JSON at all": ("workflows/w.json", b"\x00\xff\xfe"),
    "a number of a million digits": ("application.json", b"9" * 1_000_000),
}


@table("tries", SHOWN)
def test_what_a_file_would_switch_on_is_told_on_single_lines(tries: str) -> None:
    name, data = SHOWN[tries]
    told = enables(name, data)

    assert all("\n" not in line for line in told)
    assert sum(map(len, told)) < 5_000
    assert len(difference(name, b"{}", data)) <= 401


# --- writing into a stranger's folder -------------------------------------------------------------

WRITING: dict[str, Callable[[Stranger], object]] = {
    ".midstream leads to the person's own settings": lambda s: s.link(".midstream", s.home),
    "workflows leads to the person's own settings": lambda s: s.link(
        ".midstream/workflows", s.home
    ),
    "the workflow's folder leads elsewhere": lambda s: s.link(
        ".midstream/workflows/haiku", s.home / "new"
    ),
    "the workflow's file leads elsewhere": lambda s: s.link(
        ".midstream/workflows/haiku.json", s.home / "new"
    ),
}


@table("tries", WRITING)
def test_a_starter_is_not_written_through_a_link(stranger: Stranger, tries: str) -> None:
    WRITING[tries](stranger)
    before = sorted(stranger.home.rglob("*"))

    with pytest.raises(MidstreamError):
        init_workflow(Options(workspace=stranger.work), "haiku")

    assert sorted(stranger.home.rglob("*")) == before


def test_a_starter_in_a_strangers_folder_trusts_nothing_of_it(stranger: Stranger) -> None:
    stranger.put("tools/evil.py", "x = 1")
    init_workflow(Options(workspace=stranger.work), "haiku")

    assert stranger.status().kind == "untrusted"


def test_a_grant_is_no_way_around(stranger: Stranger) -> None:
    stranger.put("tools/t.py", "x = 1")
    forged = Grant(workspace=str(stranger.work), files={"tools/t.py": "0" * 64, "../../x": "1"})

    with pytest.raises(NotTrusted):
        forged.read("tools/t.py")
    with pytest.raises(UserMistake):
        forged.read("../../x")


# --- commands people write -------------------------------------------------------------------------

COMMANDS = {
    "a command that runs one": ".midstream/commands/a.md",
    "of another program": ".claude/commands/a.md",
    "called as one of ours": ".midstream/commands/trust.md",
    "in a folder": ".claude/commands/deep/a.md",
}


@table("tries", COMMANDS)
def test_no_command_of_an_untrusted_folder_is_one(
    stranger: Stranger, tries: str, tmp_path: Path
) -> None:
    path = stranger.work / COMMANDS[tries]
    path.parent.mkdir(parents=True)
    path.write_text("Do this: !`touch ran`")
    environ = {
        key: str(tmp_path / "c") for key in ("MIDSTREAM_CONFIG_HOME", "MIDSTREAM_STATE_HOME")
    }
    config = ConfigManager(stranger.work, environ=environ)

    assert written_commands(config) == {}
    assert config.notices == ()
    if "deep" not in tries and path.parent.name == "commands":
        with pytest.raises(NotTrusted):
            config.read(path)
