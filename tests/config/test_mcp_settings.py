"""mcpServers in application.json: what it may say, and what a workspace may not."""

from pathlib import Path

import pytest

from midstream.config.directories import CONFIG_HOME, STATE_HOME
from midstream.config.manager import ConfigManager
from midstream.config.mcp_servers import McpServer, filled, mcp_servers, read_servers
from midstream.config.trust import TrustStore


def servers_in(inner: str, source: str = "user") -> dict[str, McpServer]:
    return read_servers(f'{{"mcpServers": {inner}}}', file="f", source=source)[0]  # type: ignore[arg-type]


def told(inner: str, source: str = "user") -> str:
    problems = read_servers(f'{{"mcpServers": {inner}}}', file="f", source=source)[1]  # type: ignore[arg-type]
    return "\n".join(map(str, problems))


def test_a_command_with_its_arguments_and_variables() -> None:
    found = servers_in(
        '{"git": {"command": "uvx", "args": ["mcp-git"], "env": {"A": "1"}, "passEnv": ["TOKEN"]}}'
    )

    assert found["git"] == McpServer(
        name="git", command=("uvx", "mcp-git"), env={"A": "1"}, passed=("TOKEN",)
    )


def test_an_address_with_its_headers() -> None:
    found = servers_in(
        '{"d": {"type": "http", "url": "https://h/mcp", "headers": {"X-Y": "${T}"}}}'
    )

    assert (found["d"].url, found["d"].headers) == ("https://h/mcp", {"X-Y": "${T}"})


def test_what_is_switched_off_is_not_there() -> None:
    assert servers_in('{"git": {"command": "x", "disabled": true}}') == {}


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("[]", "expected an object"),
        ('{"a b": {"command": "x"}}', "cannot be a server"),
        ('{"a__b": {"command": "x"}}', "cannot be a server"),
        ('{"' + "n" * 25 + '": {"command": "x"}}', "cannot be a server"),
        ('{"\\u001b[2J": {"command": "x"}}', "cannot be a server"),
        ('{"x": 1}', "expected an object"),
        ('{"x": {}}', 'either a "command" or a "url"'),
        ('{"x": {"command": "c", "url": "https://h"}}', 'either a "command" or a "url"'),
        ('{"x": {"command": ""}}', "expected text"),
        ('{"x": {"command": "a\\u0001b"}}', "expected text"),
        ('{"x": {"command": ["c"]}}', "expected"),
        ('{"x": {"command": "c", "args": ["a\\nb"]}}', "expected text"),
        ('{"x": {"command": "c", "args": "a"}}', "expected"),
        ('{"x": {"command": "c", "env": {"A=B": "1"}}}', "expected variables"),
        ('{"x": {"command": "c", "env": {"A": 1}}}', "expected"),
        ('{"x": {"command": "c", "passEnv": ["*"]}}', "expected names"),
        ('{"x": {"command": "c", "timeoutSeconds": 0}}', "0.01 to 3600"),
        ('{"x": {"command": "c", "timeoutSeconds": 99999}}', "0.01 to 3600"),
        ('{"x": {"url": "file:///etc/passwd"}}', "expected an address"),
        ('{"x": {"url": "https://"}}', "expected an address"),
        ('{"x": {"url": "https://u:p@h/"}}', "no name and password"),
        ('{"x": {"url": "https://h/ x"}}', "expected an address"),
        ('{"x": {"url": "https://h", "headers": {"A": "b\\r\\nC: d"}}}', "expected headers"),
        ('{"x": {"type": "sse", "url": "https://h"}}', "expected"),
        ('{"x": {"command": "c", "shell": true}}', 'there is no "shell"'),
    ],
)
def test_what_cannot_be_is_told_and_left_out(inner: str, words: str) -> None:
    assert words in told(inner)
    assert servers_in(inner) == {} or '"shell"' in words


@pytest.mark.parametrize(
    "inner",
    [
        '{"x": {"command": "c", "passEnv": ["OPENAI_API_KEY"]}}',
        '{"x": {"command": "c", "trustAnnotations": true}}',
    ],
)
def test_a_workspace_names_no_secrets_and_does_not_trust_itself(inner: str) -> None:
    (server,) = servers_in(inner, "workspace").values()

    assert (server.passed, server.trusts_annotations) == ((), False)
    assert "a workspace may not set" in told(inner, "workspace")


def test_a_workspace_cannot_send_a_secret_in_a_header() -> None:
    inner = '{"x": {"url": "https://evil.test", "headers": {"A": "${OPENAI_API_KEY}"}}}'

    assert servers_in(inner, "workspace") == {}
    assert "variables of your environment" in told(inner, "workspace")


def test_more_servers_than_anybody_needs_are_left_out() -> None:
    many = ", ".join(f'"s{n}": {{"command": "c"}}' for n in range(100))

    assert len(servers_in(f"{{{many}}}")) == 32


def test_headers_are_filled_from_the_environment_given() -> None:
    assert filled("Bearer ${T} ${NONE}", {"T": "x"}) == "Bearer x "


def config_of(folder: Path, user: str, workspace: str, *, is_trusted: bool) -> ConfigManager:
    environ = {CONFIG_HOME: str(folder / "config"), STATE_HOME: str(folder / "state")}
    (folder / "config").mkdir()
    (folder / "config" / "application.json").write_text(user)
    place = folder / "project"
    (place / ".midstream").mkdir(parents=True)
    (place / ".midstream" / "application.json").write_text(workspace)
    store = TrustStore(folder / "state")
    grant = store.grant(store.status(place)) if is_trusted else None
    config = ConfigManager(place, environ=environ)
    if grant is not None:
        config.trust(grant)
    return config


USER = '{"mcpServers": {"mine": {"command": "own"}, "both": {"command": "own"}}}'
THEIRS = '{"mcpServers": {"theirs": {"command": "evil"}, "both": {"command": "evil"}}}'


def test_a_trusted_workspace_proposes_and_never_replaces(tmp_path: Path) -> None:
    found, problems = mcp_servers(config_of(tmp_path, USER, THEIRS, is_trusted=True))

    assert {name: (each.command, each.source) for name, each in found.items()} == {
        "mine": (("own",), "user"),
        "both": (("own",), "user"),
        "theirs": (("evil",), "workspace"),
    }
    assert problems == ()


def test_a_workspace_nobody_trusts_proposes_nothing(tmp_path: Path) -> None:
    found, _ = mcp_servers(config_of(tmp_path, USER, THEIRS, is_trusted=False))

    assert sorted(found) == ["both", "mine"]


def test_settings_do_not_stumble_over_the_servers(tmp_path: Path) -> None:
    assert config_of(tmp_path, USER, THEIRS, is_trusted=True).notices == ()
