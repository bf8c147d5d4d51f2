"""The names of a workspace's files: what ignore files leave out is left out, with ripgrep and without."""

import os
from pathlib import Path

import pytest
from deadline import DEADLINE_S

from midstream.system import workspace_files
from midstream.system.workspace_files import WorkspaceFiles


@pytest.fixture(params=[pytest.param("ripgrep", marks=pytest.mark.needs("rg")), "python"])
def without_or_with(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(workspace_files, "found_program", lambda *_: None)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def named(root: Path) -> set[str]:
    files = WorkspaceFiles(root)
    files.look()
    assert await files.looked(DEADLINE_S)
    return set(files.names())


@pytest.mark.usefixtures("without_or_with")
async def test_ignore_files_of_every_level_count(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n",
            ".ignore": "private.txt\n",
            "a.py": "",
            "a.log": "",
            "private.txt": "",
            "build/out.js": "",
            "sub/.gitignore": "!kept.log\nsecret*\n",
            "sub/kept.log": "",
            "sub/secret.txt": "",
            "sub/deep/b.py": "",
            ".github/ci.yml": "",
            ".git/config": "",
            "node_modules/x/index.js": "",
        },
    )

    assert await named(tmp_path) == {
        *(".gitignore", ".ignore", "a.py", "sub/", "sub/.gitignore", "sub/kept.log"),
        *("sub/deep/", "sub/deep/b.py", ".github/", ".github/ci.yml"),
    }


@pytest.mark.usefixtures("without_or_with")
async def test_no_link_is_followed_and_no_name_can_draw(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"x.txt": ""})
    root = tmp_path / "root"
    write(root, {"a.py": "", "evil\x1b[2J.py": "", "new\nline.py": ""})
    os.symlink(outside, root / "link")
    os.symlink(outside / "x.txt", root / "x.txt")

    assert await named(root) == {"a.py"}


@pytest.mark.usefixtures("without_or_with")
async def test_names_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_files, "MAX_NAMES", 10)
    write(tmp_path, {f"f{number}.txt": "" for number in range(100)})

    assert len(await named(tmp_path)) == 10


async def test_an_empty_or_missing_workspace_has_no_files(tmp_path: Path) -> None:
    assert await named(tmp_path) == set()
    assert await named(tmp_path / "missing") == set()


async def test_old_names_serve_while_they_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_files, "FRESH_S", 0.0)
    write(tmp_path, {"a.py": ""})
    files = WorkspaceFiles(tmp_path)
    files.look()
    await files.looked(DEADLINE_S)
    write(tmp_path, {"b.py": ""})
    files.look()
    assert list(files.names()) == ["a.py"]
    await files.looked(DEADLINE_S)
    assert set(files.names()) == {"a.py", "b.py"}


async def test_looking_ends_with_the_console(tmp_path: Path) -> None:
    write(tmp_path, {f"{number}/a.py": "" for number in range(50)})
    files = WorkspaceFiles(tmp_path)
    files.look()
    await files.close()
    assert await files.looked(0)
