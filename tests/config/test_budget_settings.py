"""The `budget` of the settings: read strictly, and only ever lowered by a workspace."""

import json
from pathlib import Path

import pytest

from midstream.config.manager import ConfigManager
from midstream.config.settings import read_settings
from midstream.config.trust import TrustStore, session_grant
from midstream.language.names import Json
from midstream.language.spec import Budget


def manager(tmp_path: Path, user: Json, workspace: Json = None) -> ConfigManager:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "application.json").write_text(json.dumps(user))
    place = tmp_path / "place"
    (place / ".midstream").mkdir(parents=True)
    (place / ".midstream" / "application.json").write_text(json.dumps(workspace or {}))
    environ = {"MIDSTREAM_CONFIG_HOME": str(tmp_path / "home")}
    grant = session_grant(TrustStore(tmp_path / "state").status(place))
    config = ConfigManager(place, environ=environ)
    config.trust(grant)
    return config


def test_without_one_runs_use_what_their_workflows_say(tmp_path: Path) -> None:
    assert manager(tmp_path, {}).budget is None


def test_every_part_has_its_limit(tmp_path: Path) -> None:
    said = {"budget": {"usd": 1.5, "tokens": 10, "toolCalls": 3, "transitions": 7, "minutes": 0.5}}

    assert manager(tmp_path, said).budget == Budget(
        usd=1.5, tokens=10, tool_calls=3, transitions=7, minutes=0.5
    )


def test_a_workspace_lowers_a_budget_and_never_raises_it(tmp_path: Path) -> None:
    config = manager(
        tmp_path,
        {"budget": {"usd": 2, "tokens": 50}},
        {"budget": {"usd": 9, "tokens": 20, "minutes": 3}},
    )

    assert config.budget == Budget(usd=2.0, tokens=20, minutes=3.0)
    rows = {(each.key, each.value, each.layer) for each in config.explain()}
    assert ("budget.tokens", "20", "workspace") in rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"budget": 3}', "expected an object such as"),
        ('{"budget": {"usd": 0}}', "a number above 0, found 0"),
        ('{"budget": {"tokens": 1.5}}', "1.5"),
        ('{"budget": {"tool_calls": 3}}', 'there is no "tool_calls" here; ignored. Did you mean'),
    ],
)
def test_what_is_no_limit_is_told_and_left_out(text: str, said: str) -> None:
    settings, problems = read_settings(text, file="application.json")

    assert settings == {}
    assert said in str(problems[0])
