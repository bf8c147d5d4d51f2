"""hooks in application.json: what it may say, what a workspace may not, and what counts of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from midstream.config.directories import CONFIG_HOME, STATE_HOME
from midstream.config.hooks import EVENTS, Hook, HookFile, hooks_of, read_hooks
from midstream.config.manager import ConfigManager
from midstream.config.settings import read_settings
from midstream.config.trust import TrustStore
from midstream.config.trust_preview import enables
from midstream.language.errors import NotTrusted
from midstream.tools.validation import validate
from midstream.views.file_schema import HOOK_EVENTS, settings_schema


def read(hooks: Any, source: str = "user", *trusted: str) -> tuple[tuple[Hook, ...], str]:
    text = json.dumps({"hooks": hooks})
    given = HookFile(source=source, file="f", text=text, trusted=frozenset(trusted))  # type: ignore[arg-type]
    found, problems = read_hooks(given)
    return found, "\n".join(map(str, problems))


def one(source: str = "user", event: str = "PreToolUse", **said: Any) -> tuple[Hook, str]:
    found, problems = read({event: [{"hooks": [{"command": "c", **said}]}]}, source)
    (hook,) = found
    return hook, problems


def test_a_hook_in_the_form_other_programs_have() -> None:
    hook = {"type": "command", "command": "~/bin/guard.sh -v", "timeout": 3}
    found, problems = read({"PreToolUse": [{"matcher": "write_file|edit_file", "hooks": [hook]}]})

    assert problems == ""
    assert found == (
        Hook(
            event="PreToolUse",
            name="guard.sh",
            command="~/bin/guard.sh -v",
            matcher="write_file|edit_file",
            timeout_s=3,
            on_error="refuse",
            file="f",
        ),
    )


def test_what_guards_refuses_when_it_fails_and_all_else_goes_on() -> None:
    assert one()[0].on_error == one(event="UserPromptSubmit")[0].on_error == "refuse"
    assert one(event="PostToolUse")[0].on_error == one(event="Stop")[0].on_error == "go_on"
    assert one(on_error="go_on")[0].on_error == "go_on"


def test_a_hook_of_the_users_own_may_leave_the_sandbox_and_no_other() -> None:
    assert not one(sandbox=False)[0].is_boxed
    hook, problems = one("workspace", sandbox=False)

    assert hook.is_boxed
    assert "a workspace may not take a hook out of the sandbox" in problems


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ([], "expected an object"),
        ({"PreToolUse": {}}, "expected a list"),
        ({"PreToolUse": [{"matcher": "x"}]}, "expected an object"),
        ({"PreToolUse": [{"matcher": "(", "hooks": []}]}, "it fits no tool"),
        ({"PreToolUse": [{"hooks": ["c"]}]}, "expected an object"),
        ({"PreToolUse": [{"hooks": [{}]}]}, 'expected a "command"'),
        ({"PreToolUse": [{"hooks": [{"command": 1}]}]}, '"command" is not what it must be'),
        ({"PreToolUse": [{"hooks": [{"command": "c", "timeout": 10_000}]}]}, "0.1 to 600 seconds"),
        ({"PreToolUse": [{"hooks": [{"command": "c", "type": "prompt"}]}]}, '"type" is not'),
        ({"PreToolUse": [{"hooks": [{"command": "c", "on_error": "x"}]}]}, '"on_error" is not'),
    ],
)
def test_a_guard_that_cannot_be_read_refuses_until_it_can(hooks: Any, words: str) -> None:
    found, problems = read(hooks)

    assert words in problems
    (hook,) = found
    assert (hook.event, hook.on_error) == ("PreToolUse", "refuse")
    assert words in hook.problem


def test_a_file_that_is_no_json_may_have_had_guards() -> None:
    given = HookFile(source="user", file="f", text='{"hooks": {"PreToolUse": [')
    (hook,), _ = read_hooks(given)

    assert hook.problem == "f cannot be read, and may have hooks"


def test_events_and_keys_that_mean_nothing_here_are_told_and_passed_over() -> None:
    found, problems = read(
        {
            "PreCompact": [{"hooks": [{"command": "c"}]}],
            "Stop": [{"hooks": [{"command": "c", "statusMessage": "s"}], "sequential": True}],
        }
    )

    assert [hook.event for hook in found] == ["Stop"]
    assert 'nothing runs at "PreCompact"' in problems
    assert 'there is no "statusMessage" here' in problems
    assert 'there is no "sequential" here' in problems


def test_a_workspaces_hook_runs_no_file_of_ours_that_nobody_trusted() -> None:
    said = {"PreToolUse": [{"hooks": [{"command": 'sh "$MIDSTREAM_PROJECT_DIR/.midstream/x.sh"'}]}]}
    (hook,), problems = read(said, "workspace", "hooks/x.sh")
    assert ".midstream/x.sh is not trusted with the workspace" in hook.problem
    assert "Put it into .midstream/hooks" in problems

    said = {"PreToolUse": [{"hooks": [{"command": "sh .midstream/hooks/x.sh"}]}]}
    (hook,), problems = read(said, "workspace", "hooks/x.sh")
    assert (hook.problem, problems) == ("", "")


def test_the_settings_know_the_key_and_leave_it_to_its_reader() -> None:
    assert read_settings('{"hooks": 1}', file="f", is_workspace=True) == ({}, ())


def test_editors_know_what_the_reader_knows() -> None:
    assert HOOK_EVENTS == EVENTS
    said = {"PreToolUse": [{"matcher": "x", "hooks": [{"command": "c", "timeout": 1.5}]}]}
    for hooks, is_right in ((said, True), ({"PreToolUse": [{"hooks": [{}]}]}, False)):
        assert (validate({"hooks": hooks}, settings_schema()) == "") is is_right
        assert (read(hooks)[1] == "") is is_right


# --- where they come from -------------------------------------------------------------------------

HOOKS = '{"hooks": {"PreToolUse": [{"hooks": [{"command": "sh .midstream/hooks/guard.sh"}]}]}}'
OWN = '{"hooks": {"PreToolUse": [{"hooks": [{"command": "own"}]}]}}'


def config_of(folder: Path, *, is_trusted: bool) -> ConfigManager:
    environ = {CONFIG_HOME: str(folder / "config"), STATE_HOME: str(folder / "state")}
    (folder / "config").mkdir()
    (folder / "config/application.json").write_text(OWN)
    place = folder / "project"
    (place / ".midstream/hooks").mkdir(parents=True)
    (place / ".midstream/application.json").write_text(HOOKS)
    (place / ".midstream/hooks/guard.sh").write_text("exit 2")
    store = TrustStore(folder / "state")
    grant = store.grant(store.status(place)) if is_trusted else None
    config = ConfigManager(place, environ=environ)
    if grant is not None:
        config.trust(grant)
    return config


def test_a_workspaces_hooks_count_once_it_is_trusted_and_run_after_the_users(
    tmp_path: Path,
) -> None:
    found, problems = hooks_of(config_of(tmp_path, is_trusted=True))

    assert problems == ()
    assert [(hook.name, hook.source, hook.problem) for hook in found] == [
        ("own", "user", ""),
        ("guard.sh", "workspace", ""),
    ]


def test_the_hooks_of_a_workspace_that_is_left_alone_are_none(tmp_path: Path) -> None:
    found, _ = hooks_of(config_of(tmp_path, is_trusted=False))

    assert [hook.name for hook in found] == ["own"]


@pytest.mark.parametrize("how", ["changed", "added", "removed", "linked"])
def test_a_script_that_is_not_as_it_was_trusted_is_not_run(tmp_path: Path, how: str) -> None:
    config = config_of(tmp_path, is_trusted=True)
    assert config.grant is not None
    config.grant.require_whole("hooks")
    folder = tmp_path / "project/.midstream/hooks"
    match how:
        case "changed":
            (folder / "guard.sh").write_text("exit 0")
        case "added":
            (folder / "json.py").write_text("")
        case "removed":
            (folder / "guard.sh").unlink()
        case _:
            (folder / "more").symlink_to("/etc/passwd")

    with pytest.raises((NotTrusted, OSError, Exception), match=r"guard\.sh|json\.py|more"):
        config.grant.require_whole("hooks")


def test_what_hooks_would_run_is_shown_before_a_workspace_is_trusted() -> None:
    assert enables("application.json", HOOKS.encode()) == (
        "the hook at PreToolUse, in the sandbox: sh .midstream/hooks/guard.sh",
    )
    assert enables("hooks/guard.py", b"") == ("a file that hooks use, in the sandbox",)
