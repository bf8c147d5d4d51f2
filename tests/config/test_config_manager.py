"""ConfigManager: which layer counts, what is kept, and that no file keeps it from starting."""

import os
import stat
from pathlib import Path

import pytest

from midstream.config.directories import user_config_dir, user_state_dir
from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing
from midstream.config.trust import Grant, TrustStore, session_grant
from midstream.language.errors import NotTrusted, OurBug, UserMistake, WorldTrouble
from midstream.language.names import Mode


class Place:
    """A user's folders and a workspace on disk, made anew for each test."""

    def __init__(self, root: Path) -> None:
        self.user = root / "config"
        self.state = root / "state"
        self.workspace = root / "repo"
        self.workspace.mkdir()
        self.environ = {
            "MIDSTREAM_CONFIG_HOME": str(self.user),
            "MIDSTREAM_STATE_HOME": str(self.state),
        }

    def user_file(self, name: str, text: str) -> Path:
        return self._write(self.user / name, text)

    def workspace_file(self, name: str, text: str) -> Path:
        return self._write(self.workspace / ".midstream" / name, text)

    def _write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def grant(self) -> Grant:
        return session_grant(TrustStore(self.state).status(self.workspace))

    def config(
        self,
        *,
        trusted: bool = False,
        mode: str | None = None,
        model: str | None = None,
        **environ: str,
    ) -> ConfigManager:
        environ = {**self.environ, **environ}
        config = ConfigManager(self.workspace, mode=mode, model=model, environ=environ)
        if trusted:
            config.trust(self.grant())
        return config


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


# --- layers -------------------------------------------------------------------------------------


def test_without_any_file_the_defaults_count(place: Place) -> None:
    config = place.config()

    assert config.mode == Mode("role", "dude")
    assert sorted(config.models) == ["base", "fast", "smart"]
    assert all(setting.layer == "built-in" for setting in config.explain())
    assert config.notices == ()


def test_a_status_line_is_listed_once_and_only_where_there_is_one(place: Place) -> None:
    def listed() -> list[str]:
        told = place.config().explain()
        return [each.value for each in told if each.key.startswith("statusLine")]

    assert listed() == []
    place.user_file("application.json", '{"statusLine": "{model}"}')
    assert listed() == ["{model}"]


def test_later_layers_win_and_each_says_where_it_comes_from(place: Place) -> None:
    place.user_file("application.json", '{"currentMode": "role:user", "models": {"base": "u:1"}}')
    place.workspace_file("application.json", '{"currentMode": "role:workspace"}')
    config = place.config(trusted=True, mode="role:line", MIDSTREAM_MODEL="env:1")

    told = {setting.key: setting for setting in config.explain()}
    assert (told["currentMode"].value, told["currentMode"].layer) == ("role:line", "command line")
    assert told["currentMode"].hidden == (
        ("workspace", "role:workspace"),
        ("user", "role:user"),
        ("built-in", "role:dude"),
    )
    base = told["models.base"]
    assert (base.value, base.layer, base.source) == ("env:1", "environment", "MIDSTREAM_MODEL")
    assert place.config(trusted=True).mode == Mode("role", "workspace")
    assert place.config().mode == Mode("role", "user")
    assert place.config().models["base"] == "u:1"


def test_the_command_lines_model_wins_over_the_environments(place: Place) -> None:
    config = place.config(model="line:1", MIDSTREAM_MODEL="env:1")

    assert set(config.models.values()) == {"line:1"}


def test_a_model_chosen_while_running_counts_until_it_is_taken_back(place: Place) -> None:
    config = place.config(MIDSTREAM_MODEL="env:1")
    config.use_model("mine:1")
    assert set(config.models.values()) == {"mine:1"}

    config.use_model(None)
    assert set(config.models.values()) == {"env:1"}


def test_a_workspaces_models_do_not_count_even_when_trusted(place: Place) -> None:
    place.workspace_file("application.json", '{"models": {"base": "evil:1"}}')
    config = place.config(trusted=True)

    assert config.models == place.config().models
    assert "a workspace may not choose models" in config.notices[0]


def test_an_unknown_setting_suggests_the_nearest(place: Place) -> None:
    with pytest.raises(UserMistake, match="Did you mean 'currentMode'"):
        place.config().value("curentMode")


def test_a_bad_mode_on_the_command_line_is_refused(place: Place) -> None:
    with pytest.raises(UserMistake, match="'dude' is not a mode"):
        place.config(mode="dude")


def test_the_older_default_role_is_read_with_one_line(place: Place) -> None:
    place.user_file("application.json", '{"defaultRole": "coder"}')
    config = place.config()

    assert config.mode == Mode("role", "coder")
    assert config.notices == (
        'config/application.json:1:17 $.defaultRole: warning: "defaultRole" is the older name of '
        '"currentMode": read as "role:coder".',
    )


@pytest.mark.parametrize("text", ["{", "[]", "", "\0", '{"currentMode": 1}', "null"])
def test_a_broken_user_file_is_a_notice_and_the_defaults_count(place: Place, text: str) -> None:
    place.user_file("application.json", text)
    config = place.config()

    assert config.mode == Mode("role", "dude")
    assert len(config.notices) == 1
    assert config.notices[0].startswith("config/application.json:1:")
    assert "\n" not in config.notices[0]


def test_a_user_file_that_is_no_file_or_no_text_is_a_notice(place: Place) -> None:
    (place.user / "application.json").mkdir(parents=True)
    assert place.config().notices == (
        "config/application.json is not a regular file. Put a plain file in its place. "
        "It is ignored.",
    )

    (place.user / "application.json").rmdir()
    (place.user / "application.json").write_bytes(b"\xff")
    assert place.config().notices == ("config/application.json: not UTF-8 text; it is ignored.",)


# --- an untrusted workspace ---------------------------------------------------------------------


def test_of_an_untrusted_workspace_no_byte_counts(place: Place) -> None:
    place.workspace_file("application.json", '{"currentMode": "role:evil"}')
    place.workspace_file("roles/r.json", '{"evil": {}}')
    place.workspace_file("workflows/evil.json", "{}")
    place.workspace_file("tools/evil.py", "")
    config = place.config()

    assert config.mode == Mode("role", "dude")
    assert "evil" not in config.roles()
    assert "evil" not in config.workflows()
    assert config.tool_files() == ()
    assert config.notices == ()
    with pytest.raises(NotTrusted, match="the workspace is not trusted"):
        config.read(place.workspace / ".midstream" / "roles" / "r.json")


def test_no_other_way_into_an_untrusted_folder_is_open(place: Place) -> None:
    file = place.workspace_file("roles/r.json", "{}")
    alias = place.user_file("roles/alias.json", "")
    alias.unlink()
    alias.symlink_to(file)
    config = place.config()

    with pytest.raises(NotTrusted):
        config.read(place.workspace / "x" / ".." / ".midstream" / "roles" / "r.json")
    with pytest.raises(NotTrusted):
        config.read(alias)


def test_a_link_in_the_folder_is_never_followed(place: Place, tmp_path: Path) -> None:
    secret = place.user_file("secret.json", "{}")
    link = place.workspace_file("roles/link.json", "")
    link.unlink()
    link.symlink_to(secret)
    alias = tmp_path / "alias"
    alias.symlink_to(place.workspace)
    place.workspace_file("roles/r.json", "{}")

    for config in (place.config(), place.config(trusted=True)):
        for path in (link, alias / ".midstream" / "roles" / "link.json"):
            with pytest.raises((NotTrusted, FileMissing, WorldTrouble)):
                config.read(path)


def test_a_file_changed_after_the_yes_is_not_read_and_said(place: Place) -> None:
    place.workspace_file("roles/r.json", '{"mine": {}}')
    config = place.config(trusted=True)
    assert "mine" in config.roles()

    file = place.workspace_file("roles/r.json", '{"mine": {"level": "smart"}}')
    os.utime(file, ns=(1, 1))

    assert "mine" not in config.roles()
    assert config.notices == (
        "repo/.midstream/roles/r.json has changed since you trusted this workspace; it was not read. "
        "/trust in the console, or midstream trust, shows the change and lets you trust it. It is ignored.",
    )


def test_a_yes_given_while_running_lets_the_workspace_take_part(place: Place) -> None:
    place.workspace_file("application.json", '{"currentMode": "role:theirs"}')
    place.workspace_file("roles/r.json", '{"theirs": {}}')
    config = place.config()
    assert "theirs" not in config.roles()

    config.trust(place.grant())

    assert config.mode == Mode("role", "theirs")
    assert "theirs" in config.roles()


def test_what_an_editor_leaves_beside_a_file_is_not_read(place: Place) -> None:
    place.user_file("roles/.#a.json", '{"evil": {}}')
    place.user_file("roles/a.json~", '{"evil": {}}')

    assert "evil" not in place.config().roles()


def test_a_grant_for_another_workspace_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(OurBug):
        ConfigManager(tmp_path, environ=place.environ).trust(place.grant())


# --- changing the mode --------------------------------------------------------------------------


def test_the_mode_is_kept_for_the_next_start_with_the_rest_of_the_file(place: Place) -> None:
    file = place.user_file("application.json", '{\n  // mine\n  "other": [1]\n}\n')
    config = place.config()

    assert config.save_mode(Mode("workflow", "review")) == ""

    assert place.config().mode == Mode("workflow", "review")
    assert file.read_text() == (
        '{\n  "currentMode": "workflow:review",\n  // mine\n  "other": [1]\n}\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_first_mode_makes_a_private_folder_and_leaves_no_litter(place: Place) -> None:
    place.config().save_mode(Mode("role", "coder"))

    assert os.listdir(place.user) == ["application.json"]
    assert stat.S_IMODE(place.user.stat().st_mode) == 0o700


def test_a_mode_need_not_be_saved(place: Place) -> None:
    config = place.config()

    config.set_mode(Mode("role", "coder"))
    assert config.mode == Mode("role", "coder")
    assert not place.user.exists()


def test_a_folder_that_cannot_be_written_costs_the_memory_not_the_mode(place: Place) -> None:
    place.user.write_text("a file in the way")
    config = place.config()

    assert config.notices == ()
    assert config.save_mode(Mode("role", "coder")) == (
        "The mode is role:coder until you leave: "
        "config/application.json cannot be written: something else is in its place."
    )
    assert place.user.read_text() == "a file in the way"


def test_a_broken_file_is_not_overwritten(place: Place) -> None:
    file = place.user_file("application.json", '{"currentMode": "role:a" "x": 1}')

    assert "has problems, so it stays as it is" in place.config().save_mode(Mode("role", "coder"))
    assert file.read_text() == '{"currentMode": "role:a" "x": 1}'


def test_a_linked_file_stays_a_link(place: Place, tmp_path: Path) -> None:
    dotfile = tmp_path / "dotfiles.json"
    dotfile.write_text("{}")
    place.user.mkdir()
    (place.user / "application.json").symlink_to(dotfile)

    place.config().save_mode(Mode("role", "coder"))

    assert (place.user / "application.json").is_symlink()
    assert "role:coder" in dotfile.read_text()


def test_a_workspace_that_sets_the_mode_itself_is_pointed_out(place: Place) -> None:
    place.workspace_file("application.json", '{"currentMode": "role:theirs"}')
    config = place.config(trusted=True)

    assert config.save_mode(Mode("role", "mine")) == (
        "At the next start here, repo/.midstream/application.json sets role:theirs again."
    )


# --- roles and workflows ------------------------------------------------------------------------


def test_roles_of_later_layers_replace_earlier_ones(place: Place) -> None:
    place.user_file("roles/a.json", '{"dude": {"systemMessage": "user"}, "own": {}}')
    place.workspace_file("roles/a.json", '{"own": {"systemMessage": "workspace"}}')

    files = place.config(trusted=True).role_files()

    assert (files["dude"].role.systemMessage, files["dude"].layer) == ("user", "user")
    assert (files["own"].role.systemMessage, files["own"].layer) == ("workspace", "workspace")
    assert place.config().roles()["own"].systemMessage == ""


def test_a_role_file_is_read_again_when_it_changes(place: Place) -> None:
    file = place.user_file("roles/a.json", '{"own": {}}')
    config = place.config()
    assert config.roles()["own"].systemMessage == ""

    file.write_text('{"own": {"systemMessage": "new"}}')

    assert config.roles()["own"].systemMessage == "new"


def test_a_broken_role_is_a_notice_told_once_and_the_others_stay(place: Place) -> None:
    place.user_file("roles/a.json", '{"bad": {"levl": 1}, "good": {}}')
    place.user_file("roles/b.json", '{"good": {"level": "fast"}}')
    config = place.config()
    config.roles()

    assert config.roles()["good"].level == "fast"
    assert "bad" not in config.roles()
    assert config.notices == (
        'config/roles/a.json:1:10 $.bad.levl: unknown key "levl". Did you mean "level"?',
        "The role 'good' stands in config/roles/a.json and config/roles/b.json; the second one is used.",
    )


def test_workflows_are_named_by_their_files_and_described(place: Place) -> None:
    own = place.user_file("workflows/mine.json", '{"description": "Does things."}')
    place.user_file("workflows/broken.json", '{"description": "x"')
    place.user_file("workflows/mine/script.py", "")
    place.workspace_file("workflows/mine.json", '{"description": 5}')
    place.workspace_file("workflows/mine/deep.json", "{}")

    found = place.config().workflows()
    assert (found["mine"].description, found["mine"].path) == ("Does things.", own)
    assert found["broken"].problem == (
        'config/workflows/broken.json:1:20 expected "," or "}", found the end of the file.'
    )
    trusted = place.config(trusted=True).workflows()
    assert (trusted["mine"].layer, trusted["mine"].description) == ("workspace", "")
    assert "deep" not in trusted


def test_an_unknown_workflow_or_role_names_the_nearest(place: Place) -> None:
    place.user_file("workflows/review.json", "{}")
    place.user_file("roles/a.json", '{"tester": {}}')
    config = place.config()

    assert config.workflow_path("review") == place.user / "workflows" / "review.json"
    with pytest.raises(UserMistake, match=r"no workflow 'reviw'. Did you mean 'review'\?"):
        config.workflow_path("reviw")
    with pytest.raises(UserMistake, match=r"no role 'testr'. Did you mean 'tester'\?"):
        config.check_mode(Mode("role", "testr"))
    config.check_mode(Mode("role", "tester"))


def test_tools_of_the_user_and_of_a_trusted_workspace_are_found(place: Place) -> None:
    mine = place.user_file("tools/mine.py", "")
    place.user_file("tools/notes.txt", "")
    theirs = place.workspace_file("tools/theirs.py", "x = 1")
    config = place.config(trusted=True)

    assert config.tool_files() == (mine, theirs)
    assert config.read(theirs) == b"x = 1"


# --- places -------------------------------------------------------------------------------------


def test_the_places_are_those_platformdirs_gives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import platformdirs

    for environ in (
        {"HOME": str(tmp_path)},
        {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"},
    ):
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert user_config_dir(environ) == Path(platformdirs.user_config_dir("midstream", False))
        assert user_state_dir(environ) == Path(platformdirs.user_state_dir("midstream", False))


def test_the_state_folder_can_be_moved(place: Place) -> None:
    assert place.config().state_dir == place.state


# --- what looks at changes ------------------------------------------------------------------------

OWN_CHECKERS = (
    '{"diagnostics": {"*.py *.pyi": "ruff check {files}", "*.ts": ["tsc", "eslint {files}"]}}'
)


@pytest.mark.parametrize(
    ("user", "workspace", "counts"),
    [
        ("{}", "{}", True),
        ('{"diagnostics": false}', "{}", False),
        ("{}", '{"diagnostics": false}', False),
        ('{"diagnostics": false}', OWN_CHECKERS, False),
        ('{"diagnostics": false}', '{"diagnostics": true}', False),
        (
            "{}",
            OWN_CHECKERS,
            {"*.py *.pyi": ["ruff check {files}"], "*.ts": ["tsc", "eslint {files}"]},
        ),
        (OWN_CHECKERS, '{"diagnostics": {"*.go": "go vet"}}', {"*.go": ["go vet"]}),
    ],
)
def test_what_checks_changes_is_said_by_any_layer_and_turned_off_by_any(
    place: Place, user: str, workspace: str, counts: object
) -> None:
    place.user_file("application.json", user)
    place.workspace_file("application.json", workspace)

    config = place.config(trusted=True)

    assert config.notices == ()
    assert config.diagnostics == counts


@pytest.mark.parametrize(
    "value", ['"ruff"', "1", '{"*.py": 3}', '{"*.py": [1]}', '{"": "ruff"}', '{"*.py": " "}']
)
def test_what_is_no_command_is_told_and_the_projects_checkers_count(
    place: Place, value: str
) -> None:
    place.user_file("application.json", f'{{"diagnostics": {value}}}')
    config = place.config()

    assert len(config.notices) == 1
    assert config.diagnostics is True


def test_what_a_workspace_nobody_trusts_says_of_checkers_is_not_read(place: Place) -> None:
    place.workspace_file("application.json", OWN_CHECKERS)

    assert place.config().diagnostics is True
