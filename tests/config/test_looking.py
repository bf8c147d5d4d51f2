"""What a file of a workspace would switch on, said before anybody says yes to it."""

import pytest

from midstream.config.trust_preview import difference, enables


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tools/t.py", "x", "Python code, which runs with your rights at every start"),
        ("workflows/w/script.py", "x", "runs with your rights when its workflow is used"),
        (
            "roles/r.json",
            '{"ada": {"includedTools": ["execute_terminal", "read_files"]}, "bob": {}}',
            "the role ada, which may call execute_terminal, read_files\n"
            "the role bob, which may call every tool",
        ),
        (
            "roles/r.json",
            '{"ada": {"includedTools": ["request_users_input"]}}',
            "the role ada, which may call no tools",
        ),
        (
            "roles/r.json",
            '{"ada": {"excludedTools": ["write_file"]}}',
            "the role ada, which may call every tool but write_file",
        ),
        ("roles/r.json", '{"ada": 3}', "the role ada, which may call every tool"),
        (
            "workflows/w/w.json",
            '{"agents": [{"agent_role": "ada"}], "states": [{"name": "start", "tool": "write_file"}]}',
            "a workflow: its states call write_file; its agents call what their roles may (ada)",
        ),
        (
            "workflows/w/w.json",
            '{"agents": [{"name": "a", "acp": ["curl", "evil"]}], "states": []}',
            "a workflow: it starts other people's agents, outside the sandbox: curl evil",
        ),
        ("workflows/w/w.json", '{"states": []}', "a workflow that calls no tools"),
        ("workflows/w/w.json", "[", "no readable JSON"),
        ("workflows/w/x.so", "\x7fELF\0\0", "binary; Python may load it as code"),
        (
            "application.json",
            '{"mcpServers": {"x": {"command": "curl", "args": ["evil"]}}}',
            "proposes the MCP server x: curl evil",
        ),
        ("application.json", '{"currentMode": "role:dude"}', "the setting currentMode"),
        ("roles/r.json", '{"a": "b\u202ec"}', "! 1 character that cannot be seen (U+202E)"),
        (
            "tools/t.py",
            "a\u200b\u2066\u2066",
            "! 3 characters that cannot be seen (U+200B, U+2066)",
        ),
    ],
)
def test_a_file_is_described_by_what_it_does(name: str, text: str, said: str) -> None:
    assert said in "\n".join(enables(name, text.encode()))


def test_a_deep_or_broken_file_is_described_too() -> None:
    deep = b'{"tools":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for data in (deep, b"\xff\xfe\0", b"", b'{"tools": 3}'):
        assert enables("roles/r.json", data)


def test_a_difference_shows_lines_before_and_now() -> None:
    lines = difference("tools/t.py", b"a\nb\n", b"a\nc\n")

    assert lines[:2] == ("--- tools/t.py (as you trusted it)", "+++ tools/t.py (now)")
    assert "-b" in lines
    assert "+c" in lines
    assert difference("x", None, b"new")[-1] == "+new"
    assert difference("x", b"old", None)[-1] == "-old"
    assert difference("x", b"\0", b"y") == ("x: binary, 1 bytes before, 1 now",)


def test_a_long_difference_counts_what_it_leaves_out() -> None:
    lines = difference("x", b"", b"\n" * 1000)

    assert lines[-1].endswith("more lines")
    assert len(lines) == 401
