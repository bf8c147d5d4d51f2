"""The AGENTS.md of folders in the real program: told with a call that works there, only if trusted."""

import json
from pathlib import Path

from console_kit import run
from support.openai_server import Call, OpenAIServer, Reply

MODEL = ("--model", "openai:gpt-4o-mini")


def reads(path: str) -> Reply:
    return Reply(calls=(Call(name="read_files", arguments={"paths": [path]}),))


def workspace(home: Path) -> Path:
    """Return a workspace with a folder of its own rules."""
    folder = home / "workspace"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "AGENTS.md").write_text("Use spaces here.\n")
    for name in ("a.py", "b.py"):
        (folder / "sub" / name).write_text("x = 1\n")
    return folder


def test_it_is_told_once_with_the_result(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    replies = [reads("sub/a.py"), reads("sub/b.py"), Reply(text="Done.")]
    with OpenAIServer(replies) as server:
        options = (*MODEL, "--trust-workspace")
        ended = run(tmp_path, "chat", "look", *options, server=server, workspace=folder)

        assert ended.returncode == 0, ended.stderr
        messages = server.requests[-1]["messages"]
        assert isinstance(messages, list)
        told = [m["content"] for m in messages if m["role"] == "tool"]
        assert "Use spaces here." in told[0]
        assert "============ sub/AGENTS.md, of the workspace" in told[0]
        assert "Use spaces" not in told[1]
        assert "Use spaces" not in json.dumps(server.requests[0])


def test_untrusted_it_is_left_out_with_one_line(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    replies = [reads("sub/a.py"), reads("sub/b.py"), Reply(text="Done.")]
    with OpenAIServer(replies) as server:
        ended = run(tmp_path, "chat", "look", *MODEL, server=server, workspace=folder)

        assert ended.stderr.count("sub/AGENTS.md is not read to models") == 1
        assert "Use spaces" not in json.dumps(list(server.requests))
