import os
import socket
from pathlib import Path

import pytest
from toolbench import Bench, files_in

from midstream.language.errors import MidstreamError, UserMistake
from midstream.safety.capability import Capability, forbids_secrets
from midstream.system.workspace_paths import Place, locate, opened_folder, read_bytes


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with links of every kind, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("top secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "note.txt").write_text("top secret")
    inside = tmp_path / "work"
    (inside / "src").mkdir(parents=True)
    (inside / "src" / "app.py").write_text("print('app')\n")
    (inside / ".env").write_text("TOKEN=top secret\n")
    (inside / "link-out").symlink_to(tmp_path / "secret.txt")
    (inside / "folder-out").symlink_to(tmp_path / "outside")
    (inside / "link-in").symlink_to("src/app.py")
    (inside / "folder-in").symlink_to("src")
    (inside / "link-env").symlink_to(".env")
    (inside / "loop").symlink_to("loop")
    os.mkfifo(inside / "pipe")
    return inside


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "src/../../secret.txt",
        "src/../src/app.py",
        "/etc/passwd",
        "link-out",
        "folder-out/note.txt",
        "loop",
        ".env",
        "link-env",
        "/proc/self/environ",
        "/dev/zero",
        "pipe",
        "src",
        ".",
        "",
        "a\0b",
        "missing.txt",
        "src/app.py/more",
        "x" * 300,
        "x/" * 3_000,
        "\ud800",
    ],
)
async def test_what_must_not_be_read_is_refused_with_words(workspace: Path, path: str) -> None:
    text = await Bench(workspace).failure("read_files", paths=[path])

    assert "top secret" not in text
    assert len(text) > 20


@pytest.mark.parametrize("path", ["src/app.py", "./src/app.py", "link-in", "folder-in/app.py"])
async def test_links_inside_the_workspace_are_followed(workspace: Path, path: str) -> None:
    assert "print('app')" in await Bench(workspace).text("read_files", paths=[path])


async def test_an_absolute_path_inside_the_workspace_is_fine(workspace: Path) -> None:
    path = str(workspace / "src" / "app.py")

    assert "== src/app.py" in await Bench(workspace).text("read_files", paths=[path])


async def test_a_workspace_that_is_itself_a_link_works(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    bench = Bench(tmp_path / "alias")

    assert "app" in await bench.text("read_files", paths=[str(tmp_path / "alias/src/app.py")])
    assert "src/app.py" in await bench.text("list_directory")


async def test_only_the_part_below_the_workspace_is_judged(tmp_path: Path) -> None:
    workspace = tmp_path / ".midstream" / "trees" / ".ssh" / "work"
    workspace.mkdir(parents=True)
    bench = Bench(workspace)

    await bench.text("write_file", path=str(workspace / "a.txt"), content="x")
    ended = await bench.call("write_file", path=str(workspace / ".midstream/a.json"), content="x")
    assert ended.outcome == "denied"
    assert "protected files" in ended.text


async def test_a_socket_is_no_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")

    await Bench(workspace).failure("read_files", paths=["sock"])


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "/etc/midstream-test",
        "link-out",
        "folder-out/new.txt",
        ".git/hooks/pre-commit",
        "src/.git/config",
        ".GIT/config",
        ".midstream/application.json",
        ".env",
        ".env.production",
        "id_rsa",
        "deep/.ssh/config",
        "pipe",
        "src",
        "src/",
        "new/",
    ],
)
async def test_what_must_not_be_written_is_refused_and_stays(workspace: Path, path: str) -> None:
    before = files_in(workspace.parent)
    text = await Bench(workspace).failure("write_file", path=path, content="gotcha")

    assert text
    assert files_in(workspace.parent) == before
    assert (workspace.parent / "secret.txt").read_text() == "top secret"


@pytest.mark.parametrize("name", [".git", ".midstream"])
async def test_a_forbidden_folder_stays_so_when_it_is_a_link(workspace: Path, name: str) -> None:
    (workspace / name).symlink_to("src")

    await Bench(workspace).failure("write_file", path=f"{name}/app.py", content="gotcha")

    assert (workspace / "src" / "app.py").read_text() == "print('app')\n"


async def test_writing_to_a_link_inside_changes_the_file_it_names(workspace: Path) -> None:
    await Bench(workspace).text("write_file", path="link-in", content="new")

    assert (workspace / "link-in").is_symlink()
    assert (workspace / "src" / "app.py").read_text() == "new"


def test_a_link_put_in_the_way_after_the_check_ends_the_walk(workspace: Path) -> None:
    place = locate(workspace, "src/app.py")
    (workspace / "src").rename(workspace / "src-old")
    (workspace / "src").symlink_to(workspace.parent / "outside")
    (workspace.parent / "outside" / "app.py").write_text("top secret")

    with pytest.raises(MidstreamError, match="no folder"):
        read_bytes(place)


def test_a_file_swapped_for_a_link_is_not_followed(workspace: Path) -> None:
    place = locate(workspace, "src/app.py")
    (workspace / "src" / "app.py").unlink()
    (workspace / "src" / "app.py").symlink_to(workspace.parent / "secret.txt")

    with pytest.raises(MidstreamError, match="cannot be read"):
        read_bytes(place)


def test_folders_are_created_only_below_the_root(workspace: Path) -> None:
    place = Place(root=workspace, parts=("folder-out", "new"))

    with pytest.raises(UserMistake), opened_folder(place, create=True):
        pass
    assert not (workspace.parent / "outside" / "new").exists()


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        (".env", True),
        (".ENV", True),
        ("app/.env.local", True),
        (".env.example", False),
        ("env.py", False),
        ("id_ed25519", True),
        ("id_ed25519.pub", False),
        ("certs/server.key", True),
        ("certs/server.pem", True),
        (".aws/credentials", True),
        (".git/config", True),
        (".git/HEAD", False),
        ("keyboard.py", False),
        ("README.md", False),
    ],
)
def test_secrets_are_known_by_name(path: str, is_refused: bool) -> None:
    assert bool(forbids_secrets(Capability(kind="read", target=path))) is is_refused


async def test_no_descriptor_is_left_open(workspace: Path) -> None:
    bench = Bench(workspace)

    async def everything() -> None:
        for path in ("src/app.py", "pipe", "link-out", "missing/file", "src"):
            await bench.call("read_files", paths=[path])
            await bench.call("write_file", path=path, content="x")
        await bench.call("list_directory")
        await bench.call("exact_search", text="app")
        await bench.call("execute_terminal", command="true")

    await everything()
    before = os.listdir("/proc/self/fd")
    await everything()

    assert os.listdir("/proc/self/fd") == before
