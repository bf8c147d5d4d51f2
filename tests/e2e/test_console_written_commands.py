"""`/NAME` of a file `commands/NAME.md`: shown, sent as the person's words, found by `/help` and Tab."""

import asyncio
from pathlib import Path

import pytest
from console_kit import console, run
from scene_kit import Scene, scene
from tables import table

from midstream.app.commands.handler import MAX_SHOWN_LINES
from midstream.app.embedded_commands import MAX_COMMANDS, MAX_OUTPUT_CHARS
from midstream.core.question import Decision
from midstream.language.names import Mode
from midstream.runtime.ports import Review, ToolOutcome
from midstream.testing.fakes import FakeTool, FakeTools, Gate, says

CTRL_D = "\x04"


def command(home: Path, name: str, text: str) -> None:
    (home / "commands").mkdir(parents=True, exist_ok=True)
    (home / "commands" / f"{name}.md").write_text(text)


async def test_it_is_sent_as_words_and_shown_behind_a_bar(tmp_path: Path) -> None:
    command(tmp_path, "review", "---\ndescription: Looks\n---\nLook at $1.\n› and more\n")
    async with scene(tmp_path, says("Fine.")) as here:
        assert (await here.type("/Review @src/a.py")).kind == "taken"
        await here.ui.until("agent_responded")

        assert here.model.requests[0].messages[-1].text == "Look at @src/a.py.\n› and more"
        assert "/review sent:\n│ Look at @src/a.py.\n│ › and more" in here.ui.said


async def test_its_role_hears_it(tmp_path: Path) -> None:
    command(tmp_path, "fix", "---\nrole: coder\n---\nFix it.")
    async with scene(tmp_path, says("Fixed.")) as here:
        await here.type("/fix")
        await here.ui.until("agent_responded")

        assert here.session.switching.mode == Mode("role", "coder")


async def test_a_role_that_is_not_there_sends_nothing(tmp_path: Path) -> None:
    command(tmp_path, "fix", "---\nrole: nobody\n---\nFix it.")
    async with scene(tmp_path) as here:
        result = await here.type("/fix")

        assert (result.kind, here.model.requests) == ("returned", [])
        assert "nobody" in result.reason


async def test_one_called_as_ours_stays_ours_and_a_notice_says_so(tmp_path: Path) -> None:
    command(tmp_path, "roles", "Not this.")
    command(tmp_path, "other", "This.")
    async with scene(tmp_path) as here:
        await here.type("/roles")
        await here.type("/help all")

        assert here.model.requests == []
        assert any("/roles stays midstream's own" in words for words in here.ui.said)
        (page,) = (words for words in here.ui.said if "Your own" in words)
        assert "/roles" not in page.partition("Your own")[2]


async def test_help_and_completion_know_it(tmp_path: Path) -> None:
    command(tmp_path, "zoo", "---\ndescription: Counts\nargument-hint: ANIMAL\n---\nCount $1")
    async with scene(tmp_path) as here:
        assert here.console.completions("/zo") == (("/zoo", "Counts (yours)"),)
        await here.type("/help zoo")
        await here.type("/help all")

        assert "/zoo ANIMAL: Counts (yours)" in here.ui.said
        assert "Your own" in here.ui.said[-1]


async def test_a_long_one_is_shown_with_how_much_more_there_is(tmp_path: Path) -> None:
    command(tmp_path, "long", "line\n" * (MAX_SHOWN_LINES + 3))
    async with scene(tmp_path, says("Read.")) as here:
        await here.type("/long")

        assert any(words.endswith("│ line\n+3 more lines") for words in here.ui.said)


def terminal(
    answer: str | ToolOutcome = "Exit code: 0\n\nout\x1b[2J\n",
    *,
    review: Review | None = None,
    gate: Gate | None = None,
) -> FakeTools:
    review = review or Review()
    made = FakeTool(name="execute_terminal", answer=answer, effect="once", review=review, gate=gate)
    return FakeTools(made)


def lines_run(here: Scene) -> list[object]:
    return [call.arguments["command"] for call in here.tools.calls]


async def test_the_output_of_its_commands_stands_in_their_places(tmp_path: Path) -> None:
    command(tmp_path, "log", "Sum up !`git log ${HOME} $1`, then !`ls`.")
    async with scene(tmp_path, says("Quiet."), tools=terminal()) as here:
        await here.type("/log 'a b;c'")
        await here.ui.until("agent_responded")

        assert lines_run(here) == ["git log ${HOME} 'a b;c'", "ls"]
        assert here.model.requests[0].messages[-1].text == "Sum up out␛[2J, then out␛[2J."
        assert "/log ran: git log ${HOME} 'a b;c' (exit 0), ls (exit 0)" in here.ui.said


async def test_a_command_that_fails_is_told_with_its_exit_code(tmp_path: Path) -> None:
    command(tmp_path, "log", "Sum up !`make`, and !`make clean`.")
    failed = ToolOutcome(outcome="failed", text="Exit code: 2\n[it ran with x]\n\nno rule")
    async with scene(tmp_path, says("Quiet."), tools=terminal(failed)) as here:
        await here.type("/log")
        await here.ui.until("agent_responded")

        sent = here.model.requests[0].messages[-1].text
        assert sent == "Sum up no rule\n[exit 2], and no rule\n[exit 2]."


async def test_a_long_output_is_sent_without_its_middle(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    output = f"Exit code: 0\n\n{'x' * (MAX_OUTPUT_CHARS * 2)}"
    async with scene(tmp_path, says("Quiet."), tools=terminal(output)) as here:
        await here.type("/log")
        await here.ui.until("agent_responded")

        assert "[... 10,000 characters left out ...]" in here.model.requests[0].messages[-1].text


@pytest.mark.parametrize("is_granted", [True, False])
async def test_a_person_is_asked_as_the_policy_says_and_a_no_sends_nothing(
    tmp_path: Path, is_granted: bool
) -> None:
    command(tmp_path, "log", "---\nallowed-tools: Bash(*)\n---\n!`make`")
    asks = Review(kind="ask", asks=("exec: make",), shows="$ make")
    async with scene(tmp_path, says("Quiet."), tools=terminal(review=asks)) as here:
        typing = asyncio.create_task(here.type("/log"))
        await here.asked()
        (question,) = here.console.open_questions()
        assert (question.kind, question.text) == ("approval", "execute_terminal\n$ make")
        await here.console.approve(question.id, Decision(granted=is_granted))
        result = await typing

        if is_granted:
            await here.ui.until("agent_responded")
        assert (result.kind, len(here.model.requests), len(lines_run(here))) == (
            ("taken", 1, 1) if is_granted else ("returned", 0, 0)
        )
        assert is_granted or (result.to_mend and "make was not run" in result.reason)


async def test_what_the_policy_refuses_sends_nothing(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    refuses = terminal(review=Review(kind="deny", reason="a rule denies it."))
    async with scene(tmp_path, tools=refuses) as here:
        result = await here.type("/log")

        assert (result.kind, result.to_mend, here.model.requests) == ("returned", True, [])
        assert "a rule denies it." in result.reason


async def test_esc_stops_its_commands_and_the_line_comes_back(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    gate = Gate()
    async with scene(tmp_path, tools=terminal(gate=gate)) as here:
        typing = asyncio.create_task(here.type("/log"))
        await gate.reached()
        await here.console.halt()
        result = await typing

        assert (result.kind, result.to_mend, here.model.requests) == ("returned", True, [])
        assert here.session.active() is None


async def test_leaving_stops_its_commands_for_good(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    gate = Gate()
    async with scene(tmp_path, tools=terminal(gate=gate)) as here:
        typing = asyncio.create_task(here.type("/log"))
        await gate.reached()
        await here.console.close()

        assert (await typing).kind == "returned"
        assert [machine.run.status for machine in here.engine.machines()] == ["stopped"]


def test_in_a_pipe_what_asks_is_refused_and_the_next_line_is_heard(tmp_path: Path) -> None:
    command(tmp_path / "config", "log", "!`touch ran`")
    ended = run(tmp_path, "--model", "offline", lines="/log\nhello there\n")

    assert "touch ran was not run" in ended.stdout + ended.stderr
    assert "> hello there" in ended.stdout
    assert not (tmp_path / "workspace" / "ran").exists()


async def test_words_stop_its_commands_and_go_where_lines_go(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    gate = Gate()
    async with scene(tmp_path, says("Fine."), tools=terminal(gate=gate)) as here:
        typing = asyncio.create_task(here.type("/log"))
        await gate.reached()
        taken = await here.send("something else")
        result = await typing
        await here.ui.until("agent_responded")

        assert (taken.kind, result.kind, lines_run(here)) == ("taken", "returned", ["make"])
        assert [each.messages[-1].text for each in here.model.requests] == ["something else"]


async def test_a_turn_elsewhere_stops_its_commands(tmp_path: Path) -> None:
    command(tmp_path, "log", "!`make`")
    gate = Gate()
    async with scene(tmp_path, tools=terminal(gate=gate)) as here:
        typing = asyncio.create_task(here.type("/log"))
        await gate.reached()
        await here.type("/role coder")

        assert (await typing).kind == "returned"
        assert here.session.switching.mode == Mode("role", "coder")


async def test_a_workflow_goes_on_meanwhile_and_hears_the_text_then(tmp_path: Path) -> None:
    command(tmp_path, "log", "Sum up !`make`.")
    gate = Gate()
    script = [says("Working", gate=gate), says("Fine.")]
    async with scene(tmp_path, *script, tools=terminal(), mode="workflow:review") as here:
        await gate.reached()
        workflow = here.session.active()
        await here.type("/log")
        assert here.session.active() is workflow
        gate.open()
        await here.ui.until("run_finished", count=2)

        assert "Sum up out" in here.model.requests[-1].messages[-1].text
        assert here.session.switching.mode == Mode("role", "dude")


UNRUN = {
    "without the tool that runs commands": ("!`make`", FakeTools(), "none may be run here"),
    "left out by its own head": ("---\nallowed-tools: Read\n---\n!`make`", None, "allowed-tools"),
    "too many of them": ("!`make` " * (MAX_COMMANDS + 1), None, "are the most"),
    "quotes that do not hold": ("!`echo $((1 + $1))`", None, "cannot be held by quotes"),
}


@table(("text", "tools", "why"), UNRUN.values(), ids=UNRUN)
async def test_what_may_not_be_run_is_said_before_anything_is(
    tmp_path: Path, text: str, tools: FakeTools | None, why: str
) -> None:
    command(tmp_path, "log", text)
    async with scene(tmp_path, tools=tools or terminal()) as here:
        result = await here.type("/log x")

        assert (result.kind, result.to_mend, here.tools.calls) == ("returned", True, [])
        assert why in result.reason


def test_in_a_terminal_what_it_sent_is_seen(tmp_path: Path) -> None:
    command(tmp_path / "config", "greet", "Say hello to $ARGUMENTS\x1b[2J")
    screen = console(tmp_path, "--model", "offline")
    screen.wait_for("chat with dude")
    screen.type("/greet the zoo\r")
    screen.wait_for("│ Say hello to the zoo␛[2J")
    screen.settle()
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0


def test_in_a_terminal_a_trusted_skill_is_a_tool_away_and_an_untrusted_one_is_not(
    tmp_path: Path,
) -> None:
    skill = tmp_path / "workspace" / ".claude" / "skills" / "zoo" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: Counts\n---\nCount.\n")
    screen = console(tmp_path, "--model", "offline")
    screen.wait_for(".claude/skills/zoo/SKILL.md")
    screen.wait_for("a skill, of which agents are told")
    screen.press("n\r")
    screen.wait_for("are not read: they are not trusted")
    screen.type("/tools\r")
    screen.wait_for("get_time")
    assert "load_skill" not in screen.text()
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0

    screen = console(tmp_path, "--model", "offline", "--trust-workspace")
    screen.wait_for("chat with dude")
    screen.type("/tools\r")
    screen.wait_for("load_skill")
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0
