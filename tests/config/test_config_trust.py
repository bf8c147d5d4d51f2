"""Trust: who said yes to which bytes, and that nothing else is ever read."""

import os
import stat
from pathlib import Path

import pytest

from midstream.config.private_files import FileMissing
from midstream.config.trust import Change, TrustStore, granted, session_grant
from midstream.language.errors import NotTrusted, UserMistake, WorldTrouble


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    write(folder, "application.json", "{}")
    write(folder, "roles/r.json", "{}")
    write(folder, "workflows/w/script.py", "x = 1")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state")


def write(workspace: Path, name: str, text: str) -> Path:
    path = workspace / ".midstream" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_workspace_without_active_files_asks_for_nothing(
    tmp_path: Path, store: TrustStore
) -> None:
    (tmp_path / ".midstream").mkdir()
    (tmp_path / ".midstream" / "notes.txt").write_text("not active")

    assert store.status(tmp_path).kind == "no_files"
    assert granted(store.status(tmp_path)) is None


def test_a_new_workspace_is_untrusted_and_lists_its_files_with_sizes(
    workspace: Path, store: TrustStore
) -> None:
    write(workspace, "roles/readme.txt", "not active")
    write(workspace, "tools/t.py", "")
    status = store.status(workspace)

    assert status.kind == "untrusted"
    assert [(file.name, file.size) for file in status.files] == [
        ("application.json", 2),
        ("roles/r.json", 2),
        ("tools/t.py", 0),
        ("workflows/w/script.py", 5),
    ]
    assert granted(status) is None


def test_a_yes_is_remembered_by_the_next_process(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    store.grant(store.status(workspace))
    later = TrustStore(tmp_path / "state").status(workspace)

    assert later.kind == "trusted"
    grant = granted(later)
    assert grant is not None
    assert grant.read("workflows/w/script.py") == b"x = 1"


def test_the_memory_is_private(workspace: Path, store: TrustStore, tmp_path: Path) -> None:
    store.grant(store.status(workspace))

    assert stat.S_IMODE((tmp_path / "state" / "trust.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert sorted(os.listdir(tmp_path / "state")) == ["trust.json", "trusted"]
    copies = list((tmp_path / "state" / "trusted").iterdir())
    assert {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}
    assert stat.S_IMODE((tmp_path / "state" / "trusted").stat().st_mode) == 0o700


def test_what_was_trusted_is_kept_to_show_the_difference(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    name, place = "workflows/w/script.py", os.path.realpath(workspace)
    assert store.before(place, name) is None
    store.grant(store.status(workspace))
    write(workspace, name, "x = 2")

    assert store.before(place, name) == b"x = 1"
    for copy in (tmp_path / "state" / "trusted").iterdir():
        copy.write_bytes(b"something else")
    assert store.before(place, name) is None, "a copy that was changed is no proof"


def test_what_is_trusted_is_listed_and_a_revoked_one_leaves_no_copies(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    store.grant(store.status(workspace))
    assert list(store.workspaces()) == [os.path.realpath(workspace)]
    assert store.revoke(workspace)

    assert store.workspaces() == {}
    assert os.listdir(tmp_path / "state" / "trusted") == []


def test_every_change_asks_again_and_is_named(workspace: Path, store: TrustStore) -> None:
    store.grant(store.status(workspace))
    write(workspace, "workflows/w/script.py", "x = 2")
    write(workspace, "workflows/w/helper.py", "")
    (workspace / ".midstream" / "roles" / "r.json").unlink()

    status = store.status(workspace)

    assert status.kind == "changed"
    assert status.changes == (
        Change(name="roles/r.json", how="removed"),
        Change(name="workflows/w/helper.py", how="added"),
        Change(name="workflows/w/script.py", how="changed"),
    )
    assert granted(status) is None


def test_compiled_files_count_as_active(workspace: Path, store: TrustStore) -> None:
    store.grant(store.status(workspace))
    write(workspace, "workflows/w/__pycache__/helper.cpython-311.pyc", "evil")

    assert store.status(workspace).kind == "changed"


def test_a_yes_is_to_the_bytes_that_were_shown(workspace: Path, store: TrustStore) -> None:
    shown = store.status(workspace)
    write(workspace, "workflows/w/script.py", "swapped meanwhile")
    store.grant(shown)

    assert store.status(workspace).kind == "changed"


def test_a_grant_gives_out_no_byte_that_was_not_trusted(workspace: Path, store: TrustStore) -> None:
    grant = session_grant(store.status(workspace))
    write(workspace, "workflows/w/script.py", "x = 2")
    write(workspace, "roles/new.json", "{}")

    with pytest.raises(NotTrusted, match="has changed since you trusted"):
        grant.read("workflows/w/script.py")
    with pytest.raises(NotTrusted, match="was not there when you trusted"):
        grant.read("roles/new.json")
    with pytest.raises(FileMissing):
        grant.read("roles/gone.json")
    assert grant.names("roles") == ("roles/r.json",)


def test_a_session_grant_is_not_remembered(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    assert session_grant(store.status(workspace)).read("application.json") == b"{}"

    assert store.status(workspace).kind == "untrusted"
    assert not (tmp_path / "state").exists()


def test_trust_can_be_taken_back(workspace: Path, store: TrustStore) -> None:
    store.grant(store.status(workspace))

    assert store.revoke(workspace) is True
    assert store.revoke(workspace) is False
    assert store.status(workspace).kind == "untrusted"


def test_trust_follows_the_real_path_and_not_into_folders_below(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    store.grant(store.status(workspace))
    alias = tmp_path / "alias"
    alias.symlink_to(workspace)
    write(workspace / "sub", "application.json", "{}")

    assert store.status(alias).kind == "trusted"
    assert store.status(workspace / "sub").kind == "untrusted"


def test_links_and_pipes_are_left_out_and_said(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"key": 1}')
    inside = workspace / ".midstream"
    (inside / "roles" / "stolen.json").symlink_to(secret)
    (inside / "tools").symlink_to(tmp_path)
    os.mkfifo(inside / "workflows" / "pipe")

    status = store.status(workspace)

    assert [file.name for file in status.files] == [
        "application.json",
        "roles/r.json",
        "workflows/w/script.py",
    ]
    assert status.left_out == (
        "roles/stolen.json: a symbolic link",
        "tools: not a folder of its own",
        "workflows/pipe: not a regular file",
    )


def test_a_linked_folder_is_not_looked_into(
    tmp_path: Path, store: TrustStore, workspace: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".midstream").symlink_to(workspace / ".midstream")

    assert store.status(other).kind == "no_files"


def test_a_folder_swapped_for_a_link_after_the_yes_is_not_followed(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    grant = session_grant(store.status(workspace))
    (workspace / ".midstream").rename(tmp_path / "moved")
    (workspace / ".midstream").symlink_to(tmp_path / "moved")

    with pytest.raises((FileMissing, WorldTrouble)):
        grant.read("application.json")


@pytest.mark.parametrize(
    "name", ["../repo/.midstream/application.json", "roles/../application.json", "", "/etc/passwd"]
)
def test_a_name_cannot_leave_the_folder(workspace: Path, store: TrustStore, name: str) -> None:
    grant = session_grant(store.status(workspace))

    with pytest.raises(UserMistake, match="is not the name of a file"):
        grant.read(name)


@pytest.mark.parametrize("memory", ["", "{", "[]", '{"workspaces": {"/x": 5}}', "\0\xff"])
def test_a_broken_memory_trusts_nothing_and_is_replaced_by_the_next_yes(
    workspace: Path, store: TrustStore, tmp_path: Path, memory: str
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text(memory, encoding="latin-1")

    assert store.status(workspace).kind == "untrusted"
    store.grant(store.status(workspace))
    assert store.status(workspace).kind == "trusted"


def test_a_yes_that_cannot_be_remembered_says_so(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = TrustStore(tmp_path / "file" / "state")

    with pytest.raises(WorldTrouble, match=r"trust\.json cannot be written: Not a directory"):
        store.grant(store.status(workspace))


def test_too_many_files_are_refused_rather_than_hashed(
    workspace: Path, store: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstream.config.trust.MAX_FILES", 2)

    with pytest.raises(UserMistake, match="too much to look through"):
        store.status(workspace)


REHEARSAL = "workflows/w/rehearsals/r.json"


def test_a_recorded_rehearsal_leaves_a_trusted_workspace_trusted(
    workspace: Path, store: TrustStore
) -> None:
    store.grant(store.status(workspace))
    before = store.status(workspace)
    path = write(workspace, REHEARSAL, "{}")
    assert store.status(workspace).kind == "changed"

    assert store.add_rehearsal(before, path, b"{}")
    assert store.status(workspace).kind == "trusted"
    path.write_text("{ }")
    assert store.status(workspace).changes == (Change(name=REHEARSAL, how="changed"),)


def test_a_recorded_rehearsal_trusts_nothing_else(workspace: Path, store: TrustStore) -> None:
    untrusted = store.status(workspace)
    path = write(workspace, REHEARSAL, "{}")
    assert not store.add_rehearsal(untrusted, path, b"{}")
    assert store.status(workspace).kind == "untrusted"

    store.grant(store.status(workspace))
    before = store.status(workspace)
    script = write(workspace, "workflows/w/script.py", "x = 2")
    assert store.add_rehearsal(before, path, b"{}")
    assert not store.add_rehearsal(before, script, b"x = 2")
    assert not store.add_rehearsal(before, workspace / "r.json", b"{}")
    assert store.status(workspace).changes == (Change(name="workflows/w/script.py", how="changed"),)


def test_a_recording_does_not_bring_back_trust_that_was_taken_away_meanwhile(
    workspace: Path, store: TrustStore
) -> None:
    store.grant(store.status(workspace))
    before = store.status(workspace)
    store.revoke(workspace)

    assert not store.add_rehearsal(before, write(workspace, REHEARSAL, "{}"), b"{}")
    assert store.status(workspace).kind == "untrusted"


def test_the_first_file_of_a_workspace_may_be_a_recorded_rehearsal(
    tmp_path: Path, store: TrustStore
) -> None:
    before = store.status(tmp_path)
    path = write(tmp_path, REHEARSAL, "{}")

    assert store.add_rehearsal(before, path, b"{}")
    assert store.status(tmp_path).kind == "trusted"


def test_a_rehearsal_written_through_a_link_is_not_trusted_as_one(
    workspace: Path, store: TrustStore, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (workspace / ".midstream" / "workflows" / "w" / "rehearsals").symlink_to(tmp_path / "elsewhere")
    store.grant(store.status(workspace))
    path = write(workspace, REHEARSAL, "{}")

    assert not store.add_rehearsal(store.status(workspace), path, b"{}")
