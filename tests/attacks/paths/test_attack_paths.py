"""Paths that try to lead out of the workspace, to secrets, or to files that decide what runs later.

Each case is one line: what it tries, how the attacker has prepared the workspace, the path.
"""

import os
import socket
from pathlib import Path

import pytest
from pathfield import CANARY, Field, Setup, nothing
from tables import table

FULLWIDTH_GIT = ".\uff47\uff49\uff54"
ACCENTED = "caf\u00e9"


@pytest.fixture(params=["openat2", "walk"])
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Field:
    if request.param == "walk":
        monkeypatch.setattr("midstream.system.openat2._openat2", lambda: None)
    made = Field(tmp_path.resolve())
    monkeypatch.setenv("HOME", str(made.home))
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "MIDSTREAM_CONFIG_HOME",
        "MIDSTREAM_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return made


def links(**names: str) -> Setup:
    """Return a setup that makes links; `__` in a name is a slash, `OUT`, `HOME` stand for folders."""

    def make(field: Field) -> None:
        for name, target in names.items():
            real = target.replace("OUT", str(field.outside)).replace("HOME", str(field.home))
            field.link(name.replace("__", "/"), real)

    return make


def hard(name: str, secret: str) -> Setup:
    return lambda field: os.link(field.home / secret, field.work / name)


def fifo(field: Field) -> None:
    os.mkfifo(field.work / "pipe")


def unix_socket(field: Field) -> None:
    here = os.getcwd()
    os.chdir(field.work)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("sock")
    finally:
        os.chdir(here)


def bare_repository(field: Field) -> None:
    for name in ("objects", "refs"):
        (field.work / "data" / name).mkdir(parents=True)
    (field.work / "data" / "HEAD").write_text("ref: refs/heads/main\n")
    (field.work / "data" / "config").write_text("[core]\n")


def nearly_bare(field: Field) -> None:
    bare_repository(field)
    (field.work / "data" / "HEAD").unlink()


def twice(first: Setup, second: Setup) -> Setup:
    return lambda field: (first(field), second(field))


READS: list[tuple[str, Setup, str]] = [
    ("the parent", nothing, "../.netrc"),
    ("the parent behind a folder", nothing, "src/../../.netrc"),
    ("the parent many times", nothing, "../" * 40 + "etc/passwd"),
    ("the parent with a dot between", nothing, "./.././.netrc"),
    ("an absolute path elsewhere", nothing, "/etc/passwd"),
    ("an absolute path with two slashes", nothing, "//etc/passwd"),
    ("an absolute path that begins like the workspace's", nothing, "ABSOLUTE-sibling/x"),
    ("the home by its sign", nothing, "~/.netrc"),
    ("the home by its user", nothing, "~root/.bashrc"),
    ("the home by its variable", nothing, "$HOME/.netrc"),
    ("a URL", nothing, "file:///etc/passwd"),
    ("percent signs for the parent", nothing, "%2e%2e/.netrc"),
    ("backslashes for the parent", nothing, "..\\.netrc"),
    ("fullwidth dots for the parent", nothing, "\uff0e\uff0e/.netrc"),
    ("a one-dot leader for the parent", nothing, "\u2024\u2024/.netrc"),
    ("an overlong slash", nothing, "..\u2215.netrc"),
    ("a NUL that ends the name early", nothing, "README.md\0/../.netrc"),
    ("a NUL first", nothing, "\0"),
    ("nothing at all", nothing, ""),
    ("half of a surrogate pair", nothing, "src/\ud800"),
    ("a byte that is no UTF-8", nothing, "src/\udcff"),
    ("a newline in the name", nothing, "README.md\n.env"),
    ("a carriage return in the name", nothing, "\rREADME.md"),
    ("an escape sequence in the name", nothing, "\x1b[2JREADME.md"),
    ("a C1 control in the name", nothing, "\x9b2JREADME.md"),
    ("a mark that turns the text around", nothing, "\u202egnp.exe"),
    ("invisible tags in the name", nothing, "README\U000e0041.md"),
    ("a name of 300 letters", nothing, "x" * 300),
    ("a path of 20,000 letters", nothing, "x/" * 10_000),
    ("a path deeper than any", nothing, "a/" * 2_000 + "b"),
    ("a link to a file outside", links(out="OUT/note.txt"), "out"),
    ("a link to a folder outside", links(out="OUT"), "out/note.txt"),
    ("a link to the root", links(all="/"), "all/etc/passwd"),
    ("a link up by dots", links(up="../../outside"), "up/note.txt"),
    ("a link to a link outside", links(one="two", two="OUT/note.txt"), "one"),
    ("a link in a folder through a link", links(one="src", src__two="OUT"), "one/two/note.txt"),
    ("a link that leads out and in again", links(odd="../../outside/deep/../note.txt"), "odd"),
    ("a link to itself", links(loop="loop"), "loop"),
    ("two links to each other", links(a="b", b="a"), "a/x"),
    ("forty links in a row", links(**{f"l{n}": f"l{n + 1}" for n in range(60)}), "l0"),
    ("a link to the secret beside it", links(plain="./.env"), "plain"),
    ("a link to the home's keys", links(keys="HOME/.ssh"), "keys/id_ed25519"),
    ("a link to git's settings", links(settings=".git/config"), "settings"),
    ("a link to a link of the kernel", links(own="/proc/self/root"), "own/etc/passwd"),
    ("a link to our own environment", links(env="/proc/self/environ"), "env"),
    ("a link to our own memory", links(memory="/proc/self/mem"), "memory"),
    ("a link to what is open", links(fds="/proc/self/fd"), "fds/0"),
    ("a link to what is open, by /dev", links(fds="/dev/fd"), "fds/0"),
    ("a link to the folder we stand in", links(cwd="/proc/self/cwd"), "cwd/../../etc/passwd"),
    ("a link to endless zeros", links(zero="/dev/zero"), "zero"),
    ("a link to a terminal", links(tty="/dev/tty"), "tty"),
    ("a link to standard input", links(stdin="/dev/stdin"), "stdin"),
    ("a hard link to a key of the home", hard("notes.txt", ".ssh/id_ed25519"), "notes.txt"),
    ("a hard link to a password file", hard("notes.txt", ".netrc"), "notes.txt"),
    ("a hard link to cloud keys", hard("src/data.txt", ".aws/credentials"), "src/data.txt"),
    ("a hard link to the secret beside it", hard("notes.txt", "work/.env"), "notes.txt"),
    ("a hard link below to a secret above", hard("src/notes.txt", "work/.env"), "src/notes.txt"),
    (
        "a link to a hard link to a secret",
        twice(hard("b.txt", ".netrc"), links(a="b.txt")),
        "a",
    ),
    ("a pipe that nobody writes to", fifo, "pipe"),
    ("a socket", unix_socket, "sock"),
    ("a folder", nothing, "src"),
    ("a file used as a folder", nothing, "README.md/../.env"),
    ("a file with a slash behind it", nothing, "README.md/"),
    ("a file with a slash and a dot behind it", nothing, "README.md/."),
    ("a secret", nothing, ".env"),
    ("a secret with a dot before it", nothing, "./.env"),
    ("a secret with slashes", nothing, ".//.env"),
    ("a secret with a slash behind it", nothing, ".env/"),
    ("a secret by its absolute path", nothing, "ABSOLUTE/.env"),
    ("a secret in capitals", lambda f: (f.work / ".ENV").write_text(CANARY), ".ENV"),
    ("a secret with lines asked for", nothing, ".env:1-5"),
    ("a copy an editor made of a secret", lambda f: (f.work / ".env~").write_text(CANARY), ".env~"),
    (
        "a key deep in the workspace",
        lambda f: (f.work / "src/a.pem").write_text(CANARY),
        "src/a.pem",
    ),
    ("git's settings, which may hold a token", nothing, ".git/config"),
]
"""What it tries, the preparation, the path (`ABSOLUTE`: the workspace). No read may succeed."""


@table("setup, path", [case[1:] for case in READS], ids=[c[0] for c in READS])
async def test_no_path_leads_a_reader_out_or_to_a_secret(
    field: Field, setup: Setup, path: str
) -> None:
    setup(field)
    path = path.replace("ABSOLUTE", str(field.work))

    ended = await field.call("read_files", paths=[path])
    found = [
        await field.call("list_directory", path=path, depth=3, include_ignored=True),
        await field.call("exact_search", text="c4nary", path=path, include_ignored=True),
        await field.call("exact_search", text="c4n.ry", regex=True, path=path),
        await field.call("find_files", glob="*", path=path, include_ignored=True),
        await field.call("exact_search", text="root:", path=path, include_ignored=True),
        await field.call("edit_file", path=path, edits=[{"old_text": "c4nar", "new_text": "x"}]),
        await field.call(
            "edit_file", path=path, edits=[{"old_text": "c4nary-or", "new_text": "x"}]
        ),
    ]

    assert ended.outcome in ("failed", "denied"), ended.text
    for each in (ended, *found):
        assert CANARY not in each.text
        assert "root:x:" not in each.text
        assert each.text.encode()


WRITES: list[tuple[str, Setup, str]] = [
    ("the parent", nothing, "../new.txt"),
    ("a new file of the home", nothing, "../.profile"),
    ("an absolute path", nothing, "/etc/midstream-attack"),
    ("the home by its sign", nothing, "~/.bashrc"),
    ("a link to a file outside", links(out="OUT/note.txt"), "out"),
    ("a link to a folder outside", links(out="OUT"), "out/new.txt"),
    ("a link to what is not there yet, outside", links(out="OUT/new.txt"), "out"),
    ("a link to the home's shell file", links(rc="HOME/.bashrc"), "rc"),
    ("a link to our own settings", links(s="HOME/.config/midstream"), "s/application.json"),
    ("a link to the kernel's switches", links(sys="/proc/sys/kernel"), "sys/core_pattern"),
    ("a link to our own process", links(own="/proc/self"), "own/oom_score_adj"),
    ("a link to the disk", links(disk="/dev/null"), "disk"),
    ("a pipe", fifo, "pipe"),
    ("a socket", unix_socket, "sock"),
    ("a folder", nothing, "src"),
    ("a folder that is not there", nothing, "new/"),
    ("a folder that is not there, by a dot", nothing, "new/."),
    ("the workspace", nothing, "."),
    ("a file as a folder", nothing, "README.md/new.txt"),
    ("a name too long", nothing, "x" * 256),
    ("a name too long in bytes", nothing, "\u00e9" * 200),
    ("a newline in the name", nothing, "docs\nrm.md"),
    ("an escape sequence in the name", nothing, "\x1b]0;gotcha\x07"),
    ("a mark that turns the name around", nothing, "src/\u202exe.py"),
    ("a NUL", nothing, "README.md\0.png"),
    ("half of a surrogate pair", nothing, "\udc00"),
    ("a hook of git that is there", nothing, ".git/hooks/post-checkout"),
    ("a hook of git that is not there", nothing, ".git/hooks/pre-commit"),
    ("git's settings", nothing, ".git/config"),
    ("git's settings by way of a link", links(g=".git"), "g/config"),
    ("a hook by way of a link that hangs", links(h=".git/hooks/pre-push"), "h"),
    ("git's folder, deep below", nothing, "src/vendor/.git/hooks/pre-commit"),
    ("git's folder as a file", nothing, "src/.git"),
    ("git's folder in capitals", nothing, ".GIT/hooks/pre-commit"),
    ("git's folder, half in capitals", nothing, ".gIt/config"),
    ("git's folder with a dot behind", nothing, ".git./hooks/pre-commit"),
    ("git's folder with a blank behind", nothing, ".git /hooks/pre-commit"),
    ("git's folder as Windows shortens it", nothing, "GIT~1/hooks/pre-commit"),
    ("git's folder as a stream of Windows", nothing, ".git::$INDEX_ALLOCATION/config"),
    ("git's folder with a joiner inside", nothing, ".g\u200cit/hooks/pre-commit"),
    ("git's folder with a soft hyphen", nothing, ".gi\u00adt/hooks/pre-commit"),
    ("git's folder in fullwidth letters", nothing, f"{FULLWIDTH_GIT}/hooks/pre-commit"),
    ("git's folder with a dotless i", nothing, ".g\u0131t/hooks/pre-commit"),
    ("git's folder with a dotted capital I", nothing, ".g\u0130t/hooks/pre-commit"),
    ("git's folder behind a dot", nothing, "./././.git/hooks/pre-commit"),
    ("git's folder behind slashes", nothing, ".git///hooks//pre-commit"),
    ("git's folder by its absolute path", nothing, "ABSOLUTE/.git/hooks/pre-commit"),
    ("a repository of another name", bare_repository, "data/config"),
    ("a hook of a repository of another name", bare_repository, "data/hooks/post-checkout"),
    ("what makes a folder a repository", nearly_bare, "data/HEAD"),
    ("our own settings for the folder", nothing, ".midstream/application.json"),
    ("a new workflow of ours", nothing, ".midstream/workflows/x/script.py"),
    ("our folder in capitals", nothing, ".MidStream/roles/a.md"),
    ("what a pipeline runs", nothing, ".github/workflows/x.yml"),
    ("what a pipeline runs, in capitals", nothing, ".GitHub/Workflows/X.YML"),
    ("what agents are told", nothing, "AGENTS.md"),
    ("what agents are told, deep below", nothing, "src/agents.md"),
    ("what an editor runs", nothing, ".vscode/tasks.json"),
    ("a shell's file", nothing, ".bashrc"),
    ("an environment that is entered", nothing, ".envrc"),
    ("git's attributes", nothing, ".gitattributes"),
    ("a secret", nothing, ".env"),
    ("a secret that is not there", nothing, ".env.production"),
    ("a key of a person", nothing, ".ssh/authorized_keys"),
    ("a link named like git's folder", links(vendor__x="src"), "vendor/x/.git/config"),
]
"""What it tries, the preparation, the path. In mode `full`, nobody there to ask: nothing changes."""


@table("setup, path", [case[1:] for case in WRITES], ids=[c[0] for c in WRITES])
async def test_no_path_leads_a_writer_where_a_person_was_not_asked(
    field: Field, setup: Setup, path: str
) -> None:
    setup(field)
    path = path.replace("ABSOLUTE", str(field.work))
    before = field.everything()

    ended = await field.call("write_file", path=path, content="gotcha")
    edit = await field.call("edit_file", path=path, edits=[{"old_text": "c4nary", "new_text": "x"}])

    assert ended.outcome in ("failed", "denied"), ended.text
    assert edit.outcome in ("failed", "denied"), edit.text
    assert field.everything() == before
    assert CANARY not in ended.text + edit.text


@table(
    "path",
    [
        ".config/midstream/application.json",
        ".local/state/midstream/trust.json",
        "elsewhere/trust.json",
    ],
)
async def test_our_own_files_are_out_of_reach_even_in_a_workspace_around_them(
    field: Field, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.startswith("elsewhere"):
        monkeypatch.setenv("MIDSTREAM_STATE_HOME", str(field.home / "elsewhere"))
        (field.home / "elsewhere").mkdir()
        (field.home / path).write_text(CANARY)
    field.work = field.home
    field.move_to(field.home)
    before = field.everything()

    read = await field.call("read_files", paths=[path])
    written = await field.call("write_file", path=path, content="{}", granted=(f"write: {path}",))

    assert CANARY not in read.text + written.text
    assert read.outcome != "completed" != written.outcome
    assert field.everything() == before


@table("folder", ["/proc", "/proc/self", "/sys"])
async def test_what_the_kernel_makes_up_is_no_workspace(field: Field, folder: str) -> None:
    field.move_to(Path(folder))

    for path in ("self/environ", "environ", "version", "kernel/notes"):
        assert (await field.call("read_files", paths=[path])).outcome != "completed"
    assert (await field.call("list_directory")).outcome != "completed"


async def test_reading_the_whole_system_still_leaves_out_what_the_kernel_makes_up(
    field: Field,
) -> None:
    field.move_to(Path("/"))

    for path in ("proc/self/environ", "proc/self/cmdline", "/proc/version", "sys/kernel/notes"):
        assert (await field.call("read_files", paths=[path])).outcome != "completed"


async def test_a_search_of_everything_finds_no_secret_under_any_name(field: Field) -> None:
    os.link(field.work / ".env", field.work / "notes.txt")
    os.link(field.home / ".ssh" / "id_ed25519", field.work / "src" / "data.txt")
    field.link("out", field.outside)
    field.link("key", field.home / ".ssh" / "id_ed25519")

    ended = await field.call("exact_search", text="c4nary", include_ignored=True)

    assert CANARY not in ended.text


async def test_a_name_of_two_lines_cannot_pass_for_another_file(field: Field) -> None:
    evil = field.work / "x\nsrc"
    evil.mkdir()
    (evil / "app.py").write_text("needle: everything is fine\n")
    (field.work / "a\nREADME.md (0 B)\nz").write_text("needle")

    found = await field.call("exact_search", text="needle", include_ignored=True)
    listed = await field.call("list_directory", depth=3)

    assert not any(line.startswith("src/app.py:1: needle") for line in found.text.split("\n"))
    assert "README.md (0 B)" not in listed.text.split("\n")


async def test_a_hard_link_is_cut_not_written_through(field: Field) -> None:
    (field.work / "one.txt").write_text("before")
    os.link(field.work / "one.txt", field.outside / "two.txt")

    review = await field.review("write_file", path="one.txt", content="after")
    await field.call("write_file", path="one.txt", content="after")

    assert "2 names (hard links)" in review.shows
    assert (field.work / "one.txt").read_text() == "after"
    assert (field.outside / "two.txt").read_text() == "before"


async def test_a_program_does_not_keep_its_owners_rights_when_it_is_replaced(field: Field) -> None:
    tool = field.work / "tool"
    tool.write_text("old")
    tool.chmod(0o6755)

    await field.call("write_file", path="tool", content="new")

    assert tool.stat().st_mode & 0o7777 == 0o755


async def test_a_program_of_the_workspace_is_not_what_we_start(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    from midstream.codemap.source_files import list_files

    for name in ("git", "rg"):
        (field.work / name).write_text(f"#!/bin/sh\necho ran > '{field.outside}/ran'\n")
        (field.work / name).chmod(0o755)
    monkeypatch.chdir(field.work)
    monkeypatch.setenv("PATH", f".:{field.work}::{os.environ['PATH']}")

    list_files(field.work)
    await field.call("exact_search", text="app")

    assert not (field.outside / "ran").exists()


async def test_an_accented_name_is_one_file_whichever_way_it_is_written(field: Field) -> None:
    import unicodedata

    composed = unicodedata.normalize("NFC", f"{ACCENTED}.md")
    apart = unicodedata.normalize("NFD", f"{ACCENTED}.md")

    for name in (composed, apart):
        assert (await field.call("write_file", path=name, content=name)).outcome == "completed"
        assert (await field.call("read_files", paths=[name])).outcome == "completed"


ORDINARY = [
    *("src/app.py", "src/new/deep/module.py", "README.md", "docs/guide.md", "docs/.pages"),
    *("pyproject.toml", "package.json", "Makefile", "Dockerfile", "requirements.txt", "go.mod"),
    *(".gitignore", ".editorconfig", ".clang-format", "tsconfig.json", ".dockerignore"),
    *(".env.example", "tests/test_app.py", "tests/data/config.json", "scripts/build.sh"),
    *(
        "app/[id]/page.tsx",
        "src/with blank.txt",
        "\u65e5\u672c\u8a9e.md",
        "na\u00efve.md",
        "\U0001f642.md",
    ),
    *(
        "config/settings.yml",
        "hooks/use_state.ts",
        "src/key_board.py",
        "github/client.py",
        "a~b.txt",
    ),
]


@table("path", ORDINARY)
async def test_ordinary_files_are_written_read_and_edited_unasked_in_auto(
    tmp_path: Path, path: str
) -> None:
    field = Field(tmp_path, mode="auto")
    edits = [{"old_text": "one", "new_text": "two"}]

    ended = [
        await field.call("write_file", path=path, content="one\n"),
        await field.call("edit_file", path=path, edits=edits),
        await field.call("read_files", paths=[path]),
    ]

    assert [each.outcome for each in ended] == ["completed"] * 3, [each.text for each in ended]
    assert (field.work / path).read_text() == "two\n"
