"""`/NAME` of a file `commands/NAME.md`: shown, sent as the person's words, found by `/help` and Tab."""

from pathlib import Path

from console_kit import console
from scene_kit import scene

from midstream.app.commands.written_commands import MAX_SHOWN_LINES
from midstream.language.names import Mode
from midstream.testing.fakes import says

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


async def test_nothing_in_it_is_run_by_itself(tmp_path: Path) -> None:
    command(tmp_path, "log", "Sum up !`git log`.")
    async with scene(tmp_path, says("Quiet.")) as here:
        await here.type("/log")
        await here.ui.until("agent_responded")

        assert here.tools.calls == []
        assert here.model.requests[0].messages[-1].text == "Sum up !`git log`."
        assert any("Nothing was run" in words for words in here.ui.said)


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
