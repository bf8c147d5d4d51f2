"""Hooks as they run: real commands in the real sandbox where there is one, and whatever they answer."""

import asyncio
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from midstream.config.hooks import Hook
from midstream.core.events import HookRan
from midstream.language.errors import NotTrusted
from midstream.language.names import Json
from midstream.system.supervisor import Ended
from midstream.tools.hooks import CommandHooks, answer_of
from midstream.tools.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.slow
CALL: dict[str, Json] = {
    "tool_name": "write_file",
    "tool_input": {"path": "a.txt"},
    "tool_use_id": "call_1",
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    box = Sandbox(tmp_path_factory.mktemp("state"))
    box.measure()
    return box


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home/work"
    folder.mkdir(parents=True)
    return folder


def hook(command: str = "true", **fields: object) -> Hook:
    whole = {"event": "PreToolUse", "name": "guard", "on_error": "refuse", "is_boxed": False}
    return Hook(command=command, **{**whole, **fields})  # type: ignore[arg-type]


async def ran(workspace: Path, sandbox: Sandbox, *hooks: Hook) -> tuple[HookRan, ...]:
    made = CommandHooks(hooks, workspace=workspace, sandbox=sandbox)
    return await made.run("PreToolUse", CALL, name="write_file")


def boxes(sandbox: Sandbox) -> list[bool]:
    return [False] if sandbox.level == "none" else [False, True]


async def test_a_hook_reads_what_happens_and_refuses_by_its_exit_code(
    workspace: Path, sandbox: Sandbox
) -> None:
    for is_boxed in boxes(sandbox):
        (found,) = await ran(workspace, sandbox, hook("cat >&2; exit 2", is_boxed=is_boxed))

        told = json.loads(found.refused)
        assert told == {"hook_event_name": "PreToolUse", "cwd": str(workspace), **CALL}
        assert (found.hook, found.call_id, found.problem) == ("guard", "call_1", "")


async def test_a_hook_that_does_not_read_keeps_nobody_waiting(
    workspace: Path, sandbox: Sandbox
) -> None:
    big: dict[str, Json] = {**CALL, "tool_input": {"content": "x" * 2_000_000}}
    for is_boxed in boxes(sandbox):
        made = CommandHooks([hook(is_boxed=is_boxed)], workspace=workspace, sandbox=sandbox)

        assert await made.run("PreToolUse", big, name="write_file") == ()


async def test_each_hook_gets_the_call_as_the_one_before_left_it(
    workspace: Path, sandbox: Sandbox
) -> None:
    answer = json.dumps({"hookSpecificOutput": {"updatedInput": {"path": "b.txt"}}})
    found = await ran(
        workspace, sandbox, hook(f"echo '{answer}'", name="first"), hook("cat >&2; exit 2")
    )

    assert [each.hook for each in found] == ["first", "guard"]
    assert found[0].arguments == {"path": "b.txt"}
    assert json.loads(found[1].refused)["tool_input"] == {"path": "b.txt"}


async def test_the_first_refusal_is_the_last_word(workspace: Path, sandbox: Sandbox) -> None:
    found = await ran(workspace, sandbox, hook("exit 2"), hook("touch ran", name="second"))

    assert [each.hook for each in found] == ["guard"]
    assert not (workspace / "ran").exists()


async def test_hooks_are_told_where_the_workspace_is(workspace: Path, sandbox: Sandbox) -> None:
    words = 'echo "$MIDSTREAM_PROJECT_DIR $CLAUDE_PROJECT_DIR $PWD" >&2; exit 2'
    for is_boxed in boxes(sandbox):
        (found,) = await ran(workspace, sandbox, hook(words, is_boxed=is_boxed))

        assert found.refused == " ".join([str(workspace)] * 3)


@pytest.mark.needs("bwrap")
async def test_in_the_sandbox_a_hook_has_no_more_than_a_command(
    workspace: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    scripts = tmp_path / "home/config/hooks"
    scripts.mkdir(parents=True)
    (scripts / "look.sh").write_text(
        f"cat {tmp_path}/home/secret 2>&1; echo x > {scripts}/new 2>&1; env; exit 2"
    )
    (tmp_path / "home/secret").write_text("hidden words")
    made = CommandHooks(
        [hook(f"sh {scripts}/look.sh >&2; exit 2", is_boxed=True)],
        workspace=workspace,
        sandbox=sandbox,
        readable=[scripts],
    )
    (found,) = await made.run("PreToolUse", CALL, name="write_file")

    assert "hidden words" not in found.refused
    assert "sk-nobody" not in found.refused
    assert "Read-only file system" in found.refused
    assert [each.name for each in scripts.iterdir()] == ["look.sh"]


async def test_where_there_is_no_sandbox_a_hook_that_is_to_run_in_one_does_not(
    workspace: Path, tmp_path: Path
) -> None:
    none = Sandbox(tmp_path / "state", places=())
    (found,) = await ran(workspace, none, hook("touch ran", is_boxed=True))

    assert "it could not be started" in found.problem
    assert found.refused
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sleep 1000", "it did not answer within 0.3 s"),
        ("yes", "it printed more than 1,000,000 bytes"),
        ("echo no", "what it printed is no answer"),
        ("echo '[1]'", "what it printed is no answer"),
        ("printf '\\377'", "what it printed is not UTF-8"),
        ("echo '{\"decision\": 1}'", "decision is no text"),
        ('echo \'{"decision": "yes"}\'', "the decision 'yes' is none"),
        ("echo gone >&2; exit 1", "it ended with exit code 1: gone"),
        ("no-such-program", "it ended with exit code 127"),
        ("kill -9 $$", "it ended with exit code"),
    ],
)
async def test_a_hook_that_fails_is_told_in_a_line_and_refuses_unless_it_is_to_go_on(
    workspace: Path, sandbox: Sandbox, command: str, words: str
) -> None:
    timeout_s = 0.3 if command.startswith("sleep") else 60.0
    (found,) = await ran(workspace, sandbox, hook(command, timeout_s=timeout_s))
    (passed,) = await ran(workspace, sandbox, hook(command, timeout_s=timeout_s, on_error="go_on"))

    assert words in found.problem
    assert found.problem in found.refused
    assert words in passed.problem
    assert passed.refused == ""


def alive(seconds: str) -> bool:
    """Return whether some process sleeps for so long: a number that nobody else has."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if place.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                return True
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
async def test_what_a_hook_started_does_not_outlive_it(workspace: Path, sandbox: Sandbox) -> None:
    for is_boxed in boxes(sandbox):
        seconds = f"4{os.getpid()}.{int(is_boxed)}1"
        spawn = f"(trap '' TERM INT; sleep {seconds}) >/dev/null 2>&1 & exit 0"
        assert await ran(workspace, sandbox, hook(spawn, is_boxed=is_boxed)) == ()

        assert not alive(seconds)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
async def test_cancelling_kills_a_hook_with_all_it_started(
    workspace: Path, sandbox: Sandbox
) -> None:
    for is_boxed in boxes(sandbox):
        seconds = f"4{os.getpid()}.{int(is_boxed)}2"
        spawn = hook(f"sleep {seconds} & wait", is_boxed=is_boxed, timeout_s=600)
        work = asyncio.create_task(ran(workspace, sandbox, spawn))
        while not await asyncio.to_thread(alive, seconds):
            assert not work.done()
        work.cancel()
        await asyncio.wait({work})

        assert not alive(seconds)


async def test_a_hook_of_a_workspace_whose_files_have_changed_is_not_run(
    workspace: Path, sandbox: Sandbox
) -> None:
    def raise_changed(hook: Hook) -> None:
        raise NotTrusted("guard.sh has changed since you trusted this workspace.", hint="/trust")

    made = CommandHooks(
        [hook("touch ran", source="workspace")],
        workspace=workspace,
        sandbox=sandbox,
        require_trusted=raise_changed,
    )
    (found,) = await made.run("PreToolUse", CALL, name="write_file")

    assert "guard.sh has changed" in found.problem
    assert found.refused
    assert not (workspace / "ran").exists()


async def test_a_hook_of_a_plugin_finds_and_reads_its_own_scripts(
    tmp_path: Path, workspace: Path, sandbox: Sandbox
) -> None:
    root = tmp_path / "config" / "plugins" / "zoo" / ".midstream"
    (root / "hooks").mkdir(parents=True)
    (root / "hooks" / "guard.sh").write_text("#!/bin/sh\necho no >&2; exit 2\n")
    (root / "hooks" / "guard.sh").chmod(0o700)
    for is_boxed in boxes(sandbox):
        command = '"$CLAUDE_PLUGIN_ROOT"/hooks/guard.sh'
        made = hook(command, source="plugin", root=str(root), is_boxed=is_boxed)
        (found,) = await ran(workspace, sandbox, made)

        assert (found.refused, found.problem) == ("no", "")


def answered(said: object, event: str = "PreToolUse") -> HookRan | None:
    whole = hook(event=event)
    return answer_of(whole, Ended(exit_code=0), json.dumps(said).encode(), b"")


def test_no_answer_allows_anything() -> None:
    for decision in ("allow", "approve", "ask"):
        assert answered({"decision": decision, "reason": "sure"}) is None
        assert answered({"hookSpecificOutput": {"permissionDecision": decision}}) is None
    assert answered({"continue": True, "systemMessage": "hi"}) is None


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "block", "reason": "no"},
        {"decision": "deny", "reason": "no"},
        {"continue": False, "stopReason": "no"},
        {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}},
        # One that allows what it denies denies it.
        {
            "decision": "approve",
            "hookSpecificOutput": {"permissionDecision": "deny"},
            "reason": "no",
        },
    ],
)
def test_the_ways_other_programs_refuse_are_ways_here(said: object) -> None:
    found = answered(said)

    assert found is not None
    assert found.refused == "no"


def test_after_a_call_there_is_nothing_to_refuse_and_the_reason_is_added() -> None:
    found = answered({"decision": "block", "reason": "the tests fail"}, "PostToolUse")

    assert found == HookRan(event="PostToolUse", hook="guard", added="the tests fail")


def test_what_would_act_on_a_terminal_is_made_visible() -> None:
    found = answered({"hookSpecificOutput": {"additionalContext": "\x1b[2J\u202eevil\x00"}})

    assert found is not None
    assert "\x1b" not in found.added
    assert "\u202e" not in found.added
    assert "\x00" not in found.added


def test_words_of_a_hook_are_never_endless() -> None:
    found = answered({"decision": "deny", "reason": "x" * 500_000})

    assert found is not None
    assert len(found.refused) < 11_000


# --- the examples ---------------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples/hooks"


async def said_by(
    name: str, workspace: Path, sandbox: Sandbox, event: str = "PreToolUse", **about: Json
) -> HookRan | None:
    """Return what one of the shipped examples says, in the sandbox if there is one."""
    own = [hook(str(EXAMPLES / name), event=event, is_boxed=boxes(sandbox)[-1])]
    made = CommandHooks(own, workspace=workspace, sandbox=sandbox, readable=[EXAMPLES])
    return next(iter(await made.run(event, about)), None)


async def test_example_no_push(workspace: Path, sandbox: Sandbox) -> None:
    for command, is_refused in (("git push origin main", True), ("git status", False)):
        found = await said_by("no_push.py", workspace, sandbox, tool_input={"command": command})

        assert (found is not None) is is_refused
        assert found is None or "done by a person here" in found.refused


async def test_example_lint_after(workspace: Path, sandbox: Sandbox) -> None:
    (workspace / "good.py").write_text("x = 1\n")
    (workspace / "bad.py").write_text("x = = 1\n")
    for path, word in (("good.py", ""), ("bad.py", "does not compile"), ("notes.txt", "")):
        found = await said_by(
            "lint_after.sh", workspace, sandbox, "PostToolUse", tool_input={"path": path}
        )

        assert word in ("" if found is None else found.added)
        assert (found is None) is (word == "")


@pytest.mark.needs("git")
async def test_example_where_we_are(workspace: Path, sandbox: Sandbox) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=workspace, check=True)
    assert await said_by("where_we_are.sh", workspace, sandbox, "UserPromptSubmit") is None
    (workspace / "new.py").write_text("")
    found = await said_by("where_we_are.sh", workspace, sandbox, "UserPromptSubmit")

    assert found is not None
    assert "?? new.py" in found.added
