"""Hooks of a person and of a workspace, in the real program with a model over HTTP."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from console_kit import chatting
from pipes_kit import MODEL, Ended, events, interrupt, run, settings, started, workspace_of
from support.openai_server import Call, OpenAIServer, Reply

WRITE = Reply(calls=(Call(name="write_file", arguments={"path": "new.py", "content": "x = 1\n"}),))
CHAT = ("chat", "write it", *MODEL, "--permission-mode", "auto")


def at(event: str, command: str, **fields: Any) -> dict[str, Any]:
    return {event: [{"matcher": "write_file", "hooks": [{"command": command, **fields}]}]}


def results(server: OpenAIServer) -> list[str]:
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


def guarded(home: Path, script: str, **fields: Any) -> Path:
    """Return a workspace whose settings name a hook of its own."""
    folder = workspace_of(home) / ".midstream"
    (folder / "hooks").mkdir(parents=True)
    (folder / "hooks/guard.sh").write_text(script)
    hooks = {"hooks": at("PreToolUse", "sh .midstream/hooks/guard.sh", **fields)}
    (folder / "application.json").write_text(json.dumps(hooks))
    return folder


def chat(home: Path, *flags: str) -> tuple[Ended, list[str]]:
    with OpenAIServer([WRITE, Reply(text="Well.")]) as server:
        ended = run(home, *CHAT, *flags, server=server)
        return ended, results(server) if server.requests else []


@pytest.mark.needs("bwrap")
def test_a_hook_of_ones_own_refuses_what_the_mode_allows(tmp_path: Path) -> None:
    settings(tmp_path, hooks=at("PreToolUse", "cat >/dev/null; echo not on Fridays >&2; exit 2"))
    ended, told = chat(tmp_path)

    assert told == ["Refused: the hook cat says: not on Fridays"]
    assert not (workspace_of(tmp_path) / "new.py").exists()
    assert ended.code == 0


@pytest.mark.needs("bwrap")
def test_a_hook_that_allows_allows_nothing(tmp_path: Path) -> None:
    answer = '{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow"}}'
    settings(tmp_path, hooks=at("PreToolUse", f"echo '{answer}'"))
    with OpenAIServer([WRITE, Reply(text="Well.")]) as server:
        run(tmp_path, "chat", "write it", *MODEL, server=server)
        told = results(server)

    assert told[0].startswith("Refused: ")
    assert not (workspace_of(tmp_path) / "new.py").exists()


@pytest.mark.needs("bwrap")
def test_a_workspaces_hook_counts_once_it_is_trusted_and_never_where_it_is_left_alone(
    tmp_path: Path,
) -> None:
    guarded(tmp_path, "touch ran; echo no >&2; exit 2")
    _, told = chat(tmp_path, "--no-trust-workspace")
    assert not (workspace_of(tmp_path) / "ran").exists()
    assert "hook" not in "".join(told)

    _, told = chat(tmp_path, "--trust-workspace")
    assert told == ["Refused: the hook guard.sh says: no"]
    assert (workspace_of(tmp_path) / "ran").exists()


@pytest.mark.needs("bwrap")
def test_a_workspaces_hook_stays_in_the_sandbox_whatever_it_asks_for(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    guarded(tmp_path, f"touch {outside} 2>/dev/null; echo held >&2; exit 2", sandbox=False)
    ended, told = chat(tmp_path, "--trust-workspace")

    assert told == ["Refused: the hook guard.sh says: held"]
    assert not outside.exists()
    assert "a workspace may not take a hook out of the sandbox" in ended.told


@pytest.mark.needs("bwrap")
def test_a_script_that_changes_while_a_chat_goes_on_is_not_run_and_guards_all_the_same(
    tmp_path: Path,
) -> None:
    folder = guarded(tmp_path, "exit 0")

    def change(body: Any) -> Reply:
        (folder / "hooks/guard.sh").write_text("touch ran; exit 0")
        return WRITE

    with OpenAIServer([change, Reply(text="Well.")]) as server:
        run(tmp_path, *CHAT, "--trust-workspace", server=server)
        (told,) = results(server)

    assert "guard.sh has changed since you trusted this workspace" in told
    assert not (workspace_of(tmp_path) / "ran").exists()
    assert not (workspace_of(tmp_path) / "new.py").exists()


@pytest.mark.needs("bwrap")
def test_a_program_killed_while_a_hook_runs_after_a_call_repeats_nothing(tmp_path: Path) -> None:
    settings(
        tmp_path,
        hooks={
            "PostToolUse": [
                {
                    "matcher": "execute_terminal",
                    "hooks": [
                        {"command": "[ -e going ] || { touch going; sleep 600; }", "timeout": 600}
                    ],
                }
            ]
        },
    )
    command = Reply(calls=(Call(name="execute_terminal", arguments={"command": "echo x >> out"}),))
    work = workspace_of(tmp_path)
    with OpenAIServer([command, Reply(text="All is well.")]) as server:
        process = started(
            tmp_path, "chat", "do it", *MODEL, "--permission-mode", "auto", server=server
        )
        while not (work / "going").exists():
            assert process.poll() is None
        interrupt(process, signal.SIGKILL)
        [cut] = events(run(tmp_path, "runs", "--json").out)
        ended = run(tmp_path, "resume", cut["run"], *MODEL, server=server)

        assert ended.code == 0, ended.err
        assert "What became of it?" not in ended.err + ended.out
        assert results(server)[0].startswith("Exit code: 0")
    assert (work / "out").read_text() == "x\n"


@pytest.mark.needs("bwrap")
def test_a_person_sees_what_hooks_do_and_stops_one_at_once(tmp_path: Path) -> None:
    settings(
        tmp_path,
        hooks={
            "PreToolUse": [
                {
                    "matcher": "read_files",
                    "hooks": [
                        {"name": "slow", "command": "touch going; sleep 600", "timeout": 600}
                    ],
                }
            ]
        },
    )
    read = Reply(calls=(Call(name="read_files", arguments={"paths": ["app.py"]}),))
    work = workspace_of(tmp_path)
    with chatting([read, Reply(text="Stopped, then.")], tmp_path, *MODEL, workspace=work) as (
        screen,
        _,
    ):
        screen.type("look\r")
        while not (work / "going").exists():
            screen.wait_for("look")
        screen.type("no, stop\r")
        screen.wait_for("Stopped, then.")
        screen.type("/config\r")
        screen.wait_for("hooks.PreToolUse")
        screen.type("\x04")
        screen.wait_exit()
