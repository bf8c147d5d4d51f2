"""What is shown to a sandboxed command, as it is written down for bubblewrap."""

import os
import threading
from pathlib import Path

import pytest

from midstream.tools.sandbox.guarded_files import Lookout
from midstream.tools.sandbox.launch import OURS, Held, variables_inside
from midstream.tools.sandbox.mounts import (
    View,
    add_home,
    add_workspace,
    home_of,
    made_devices,
    safe_path,
    unfit,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home/ada"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def workspace(home: Path) -> Path:
    folder = home / "work"
    folder.mkdir()
    return folder


def made(*paths: Path) -> None:
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)


def shown_at_home(home: Path, workspace: Path, **environment: str) -> list[str]:
    view = View()
    add_home(view, home, environment, workspace)
    places = [
        view.arguments[at + 2] for at, word in enumerate(view.arguments) if word == "--ro-bind"
    ]
    return [os.path.relpath(place, home) for place in places if place.startswith(str(home))]


def of_workspace(
    workspace: Path, home: Path, *, changed: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    view = View()
    add_workspace(
        view,
        workspace,
        home=home,
        by_descriptor=True,
        guarded=Lookout(workspace).look().without(changed),
        hidden=(workspace / "state",),
    )
    view.close()
    found: dict[str, list[str]] = {}
    words = view.arguments
    for at, word in enumerate(words):
        if word.startswith("--"):
            place = words[at + 1] if word == "--tmpfs" else words[at + 2]
            source = words[at + 1] if "/dev/" in words[at + 1] else ""
            found.setdefault(f"{word} {source}".strip(), []).append(
                os.path.relpath(place, workspace)
            )
    return found


# --- which folders may be a workspace -------------------------------------------------------------


@pytest.mark.parametrize("place", ["/", "/usr", "/etc/x", "/home", "/proc/1"])
def test_a_folder_of_the_system_is_no_workspace(place: str, home: Path) -> None:
    assert unfit(Path(place), home) != ""


def test_the_home_folder_and_what_holds_it_is_no_workspace(home: Path) -> None:
    assert "home" in unfit(home, home)
    assert "home" in unfit(home.parent, home)


def test_a_folder_below_home_is_a_workspace(workspace: Path, home: Path) -> None:
    assert unfit(workspace, home) == ""


@pytest.mark.parametrize("name", [".git", ".midstream"])
def test_a_link_that_cannot_be_locked_is_told(workspace: Path, home: Path, name: str) -> None:
    (workspace / name).symlink_to("/tmp")

    assert "link" in unfit(workspace, home)


# --- home -----------------------------------------------------------------------------------------


def test_of_home_only_tool_chains_are_shown(home: Path, workspace: Path) -> None:
    made(home / ".ssh", home / ".aws", home / ".config/gh", home / ".local/share/keyrings")
    made(home / ".pyenv", home / ".cargo/bin", home / ".local/bin", home / ".local/share/uv/tools")

    assert sorted(shown_at_home(home, workspace)) == [
        ".cargo/bin",
        ".local/bin",
        ".local/share/uv/tools",
        ".pyenv",
    ]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("opt/node/bin", ["opt/node"]),
        ("bin", ["bin"]),
        (".local/bin", [".local/bin"]),
        (".", []),
        ("..", []),
        ("work/bin", []),
        ("missing/bin", []),
    ],
)
def test_a_folder_of_path_is_shown_and_never_all_of_home(
    home: Path, workspace: Path, entry: str, shown: list[str]
) -> None:
    made(home / "opt/node/bin", home / "opt/node/lib", home / "bin", home / "lib")
    made(home / ".local/bin", home / ".local/lib", workspace / "bin", workspace / "lib")

    found = shown_at_home(home, workspace, PATH=os.path.normpath(home / entry))

    assert [place for place in found if not place.startswith(".local/")] == [
        place for place in shown if not place.startswith(".local/")
    ]


def test_a_variable_cannot_widen_the_view_to_home(home: Path, workspace: Path) -> None:
    made(home / "bin", home / "lib")

    found = shown_at_home(
        home, workspace, PYENV_ROOT=str(home), JAVA_HOME=str(home), VIRTUAL_ENV=str(home.parent)
    )

    assert found == []


@pytest.mark.parametrize("value", ["", "/", "relative", "/usr/share", "/nonexistent/../etc"])
def test_a_strange_home_is_none(value: str) -> None:
    assert home_of({"HOME": value}) == Path("/tmp/home")


def test_a_relative_entry_of_path_is_left_out() -> None:
    assert safe_path({"PATH": ".:/usr/bin::bin:/bin:/usr/bin"}) == "/usr/bin:/bin"


def test_only_known_variables_are_handed_on(home: Path, workspace: Path) -> None:
    names = ("OPENAI_API_KEY", "LD_PRELOAD", "SSH_AUTH_SOCK", "BASH_ENV", "HTTPS_PROXY", "GIT_DIR")
    harmful = dict.fromkeys((*names, "PYTHONPATH", "XDG_RUNTIME_DIR", "TMPDIR"), "/x")
    plain = {"LANG": "C", "LC_ALL": "C", "PATH": "/bin"}

    inside = variables_inside({**harmful, **plain, "HOME": "/elsewhere"}, home, workspace)

    ours = {"HOME": str(home), "TMPDIR": "/tmp", "GIT_OPTIONAL_LOCKS": "0"}
    assert inside == {**plain, **ours}


# --- the workspace --------------------------------------------------------------------------------


def test_what_decides_what_runs_later_is_read_only(workspace: Path, home: Path) -> None:
    made(workspace / ".git", workspace / ".vscode", workspace / ".husky", workspace / "src")
    (workspace / "AGENTS.md").touch()

    found = of_workspace(workspace, home)

    assert found["--ro-bind"] == [".git", ".midstream"]
    assert sorted(found["--ro-bind-fd"]) == [".husky", ".vscode", "AGENTS.md"]
    assert found["--bind"] == ["."]


def test_what_is_locked_further_down_does_not_keep_its_folder_from_moving(
    workspace: Path, home: Path
) -> None:
    made(workspace / "pkg/a/.vscode")
    (workspace / "pkg/a/AGENTS.md").touch()

    found = of_workspace(workspace, home)

    assert found["--ro-bind-fd"] == ["pkg/a/.vscode", "pkg/a/AGENTS.md"]
    assert "--bind-fd" not in found


def test_each_folder_above_a_repository_below_is_made_a_mount(workspace: Path, home: Path) -> None:
    made(workspace / "a/b/.git", workspace / "a/c/.git")

    found = of_workspace(workspace, home)

    assert found["--bind-fd"] == ["a", "a/b", "a/c"]
    assert found["--ro-bind-fd"] == ["a/b/.git", "a/c/.git"]


def test_a_link_with_a_known_name_is_not_mounted(
    workspace: Path, home: Path, tmp_path: Path
) -> None:
    (workspace / ".vscode").symlink_to(tmp_path)

    assert "--ro-bind-fd" not in of_workspace(workspace, home)


def test_secrets_of_a_project_and_our_state_are_hidden(workspace: Path, home: Path) -> None:
    made(workspace / ".aws", workspace / "state")
    for name in (".env", ".env.local", ".env.example", ".npmrc", "main.py"):
        (workspace / name).touch()

    found = of_workspace(workspace, home)

    assert found["--ro-bind /dev/null"] == [".env", ".env.local"]
    assert found["--tmpfs"] == [".aws", "state"]


def test_installed_packages_are_written_where_that_was_asked_for(
    workspace: Path, home: Path
) -> None:
    made(workspace / ".venv")
    (workspace / ".venv/pyvenv.cfg").touch()

    assert of_workspace(workspace, home)["--ro-bind-fd"] == [".venv"]
    made(workspace / "pkg/node_modules/.bin")
    assert of_workspace(workspace, home)["--ro-bind-fd"] == [".venv", "pkg/node_modules/.bin"]
    assert of_workspace(workspace, home, changed=(".venv/.",))["--ro-bind-fd"] == [
        "pkg/node_modules/.bin"
    ]


def test_a_virtual_environment_cannot_show_what_is_no_python(workspace: Path, home: Path) -> None:
    made(home / ".ssh/bin", workspace / ".venv/bin")
    (home / ".ssh/bin/python").touch()
    (workspace / ".venv/bin/python").symlink_to(home / ".ssh/bin/python")

    found = of_workspace(workspace, home)

    assert found["--ro-bind"] == [".git", ".midstream"]


# --- folders that stand in ------------------------------------------------------------------------


def test_a_missing_folder_stands_there_while_it_is_held(workspace: Path) -> None:
    held = Held(workspace, [".git"])
    during = os.listdir(workspace)
    held.let_go()

    assert (during, os.listdir(workspace)) == ([".git"], [])


def test_it_stays_until_the_last_holder_lets_go(workspace: Path) -> None:
    first, second = Held(workspace, [".git"]), Held(workspace, [".git"])
    first.let_go()
    between = os.listdir(workspace)
    second.let_go()

    assert (between, os.listdir(workspace)) == ([".git"], [])


@pytest.mark.parametrize("kind", ["folder", "file", "link", "full"])
def test_what_is_a_persons_is_left_as_it_is(workspace: Path, kind: str) -> None:
    place = workspace / ".git"
    if kind == "file":
        place.write_text("gitdir: x")
    elif kind == "link":
        place.symlink_to("/nonexistent")
    else:
        place.mkdir()
        if kind == "full":
            (place / "HEAD").touch()
            place.chmod(OURS)
    before = place.lstat()

    Held(workspace, [".git"]).let_go()

    assert place.lstat().st_ino == before.st_ino


def test_many_that_come_and_go_at_once_leave_nothing_and_never_lose_it(workspace: Path) -> None:
    lost: list[int] = []

    def come_and_go() -> None:
        for number in range(60):
            held = Held(workspace, [".git", ".midstream"])
            if not (workspace / ".git").is_dir():
                lost.append(number)
            held.let_go()

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (lost, os.listdir(workspace)) == ([], [])


@pytest.mark.parametrize("how", ["anybody may write around it", "it lies in somebody's folder"])
def test_no_devices_are_made_where_others_could_put_something_else(
    tmp_path: Path, how: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    if how == "anybody may write around it":
        theirs.chmod(0o777)
    elif os.getuid() == 0:
        os.chown(theirs, 65534, 65534)

    assert not made_devices(theirs / "state" / "dev")
    assert list((theirs / "state" / "dev").iterdir()) == []


def test_devices_of_ours_are_made_anew_where_they_are_something_else(tmp_path: Path) -> None:
    if not made_devices(tmp_path / "dev"):
        return  # not root, or no devices are served here
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o600)
    (tmp_path / "dev" / "null").unlink()
    (tmp_path / "dev" / "null").symlink_to(outside)

    assert made_devices(tmp_path / "dev")
    assert (tmp_path / "dev" / "null").is_char_device()
    assert outside.stat().st_mode & 0o777 == 0o600
