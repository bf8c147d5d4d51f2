"""Permissions in application.json: read with places, narrowed by a workspace, never lost by a slip."""

import json
from pathlib import Path

import pytest

from midstream.config.manager import ConfigManager
from midstream.config.settings import MAX_RULES, read_settings
from midstream.config.trust import TrustStore, session_grant
from midstream.safety.capability import UNREADABLE, Capability
from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy, judged


def read(text: str, *, is_workspace: bool = False) -> tuple[dict[str, list[str]], list[str]]:
    settings, problems = read_settings(text, file="a.json", is_workspace=is_workspace)
    rules = {
        key.partition(".")[2]: json.loads(value)
        for key, value in settings.items()
        if key.startswith("permissions.")
    }
    return rules, [str(problem) for problem in problems]


def test_rules_are_read_as_they_stand() -> None:
    text = (
        '{"permissions": {"allow": ["exec: git push *"], "ask": [], // none\n'
        '"deny": ["net: *", "write: docs/**"]}}'
    )

    assert read(text) == (
        {"allow": ["exec: git push *"], "ask": [], "deny": ["net: *", "write: docs/**"]},
        [],
    )


def test_a_wrong_rule_is_told_with_its_place_and_allows_nothing() -> None:
    rules, said = read(
        '{"permissions": {"allow": ["exec: ls",\n"exce: rm", 5, "write: /etc/x"], "denied": []}}'
    )

    assert rules == {"allow": ["exec: ls"], "deny": [UNREADABLE]}
    assert said == [
        'a.json:2:1 $.permissions.allow[1]: "exce: rm" is not a rule: there is no kind "exce". '
        "Did you mean 'exec'?",
        'a.json:2:13 $.permissions.allow[2]: expected a rule such as "exec: git status", found 5.',
        'a.json:2:16 $.permissions.allow[3]: "write: /etc/x" is not a rule: '
        "a path begins at the workspace's root. Write it without the first part.",
        'a.json:2:34 $.permissions.denied: there is no list "denied" here. Did you mean "deny"?',
    ]


@pytest.mark.parametrize(
    "permissions",
    [
        '{"deny": ["exec git push"]}',
        '{"deny": [["exec: git push"]]}',
        '{"deny": "exec: git push"}',
        '{"dney": ["exec: git push"]}',
        '{"ask": [null]}',
        '"deny"',
        '{"deny": ["exec: git push"]',
        '{"deny": [], "deny": ["exec: git push"]}',
        json.dumps({"deny": ["exec: x"] * (MAX_RULES + 1)}),
    ],
)
def test_a_slip_in_what_narrows_has_everything_asked_about(permissions: str) -> None:
    rules, said = read(f'{{"permissions": {permissions}}}')
    policy = Policy(mode="full", ask=tuple(rules.get("ask", ())), deny=tuple(rules.get("deny", ())))

    assert said
    verdict = judged([read_command("npm test")], policy)
    assert verdict.kind == "ask"
    assert "application.json cannot be read, so midstream asks about everything." in verdict.reason
    assert f'"{UNREADABLE}"' not in verdict.reason


def test_a_workspace_may_ask_and_deny_and_nothing_else() -> None:
    rules, said = read(
        '{"permissions": {"allow": ["exec: rm *"], "ask": ["net: *"], "deny": ["exec: git push *"]},'
        '"permissionMode": "plan"}',
        is_workspace=True,
    )

    assert rules == {"ask": ["net: *"], "deny": ["exec: git push *"]}
    assert [line.partition(": ")[2] for line in said] == [
        "a workspace may not allow anything; ignored. Set it in your own application.json.",
        "a workspace may not set the permission mode; ignored. "
        "Set it in your own application.json.",
    ]


def test_no_rule_allows_protected_files() -> None:
    rules, said = read('{"permissions": {"allow": ["write_protected: .github/**"]}}')

    assert rules == {"allow": []}
    assert "midstream always asks about protected files" in said[0]


@pytest.mark.parametrize(
    ("mode", "counts", "said"),
    [
        ('"plan"', "plan", ""),
        ('"auto"', "auto", ""),
        ('"full"', None, "full is for one session: it needs a flag"),
        ('"Auto"', None, 'found "Auto". Did you mean "auto"?'),
        ("true", None, "expected text, found true."),
    ],
)
def test_the_mode_of_a_file_is_plan_ask_or_auto(mode: str, counts: str | None, said: str) -> None:
    settings, problems = read_settings(f'{{"permissionMode": {mode}}}', file="a.json")

    assert settings.get("permissionMode") == counts
    assert said in "".join(map(str, problems))


# --- what counts ---------------------------------------------------------------------------------


def manager(folder: Path, user: str, workspace: str | None = None) -> ConfigManager:
    home = folder / "home"
    home.mkdir()
    (home / "application.json").write_text(user, encoding="utf-8")
    work = folder / "work"
    (work / ".midstream").mkdir(parents=True)
    grant = None
    if workspace is not None:
        path = work / ".midstream" / "application.json"
        path.write_text(workspace, encoding="utf-8")
        grant = session_grant(TrustStore(folder / "state").status(work))
    environ = {"MIDSTREAM_CONFIG_HOME": str(home), "MIDSTREAM_STATE_HOME": str(folder / "state")}
    config = ConfigManager(work, environ=environ)
    if grant is not None:
        config.trust(grant)
    return config


def test_without_settings_the_mode_is_ask_and_there_are_no_rules(tmp_path: Path) -> None:
    assert manager(tmp_path, "{}").permissions == Policy()


def test_the_users_rules_count(tmp_path: Path) -> None:
    found = manager(
        tmp_path, '{"permissionMode": "auto", "permissions": {"allow": ["exec: make"]}}'
    ).permissions

    assert found == Policy(mode="auto", allow=("exec: make",))
    assert judged([Capability(kind="exec", target="make", argv=("make",))], found).kind == "allow"


def test_a_trusted_workspaces_rules_count_beside_the_users_and_only_narrow(tmp_path: Path) -> None:
    config = manager(
        tmp_path,
        '{"permissions": {"allow": ["exec: make *"], "deny": ["net: *"]}}',
        '{"permissions": {"allow": ["exec: *"], "deny": ["exec: make deploy"], "ask": ["exec: x"]}}',
    )

    assert config.permissions == Policy(
        allow=("exec: make *",),
        deny=("net: *",),
        narrowing_ask=("exec: x",),
        narrowing_deny=("exec: make deploy",),
    )
    assert any("a workspace may not allow anything" in notice for notice in config.notices)


def test_an_untrusted_workspaces_rules_are_not_read(tmp_path: Path) -> None:
    config = manager(tmp_path, "{}")
    (tmp_path / "work" / ".midstream" / "application.json").write_text(
        '{"permissions": {"deny": ["exec: *"]}}', encoding="utf-8"
    )

    assert config.permissions == Policy()
