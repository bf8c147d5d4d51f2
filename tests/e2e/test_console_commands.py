"""`/diff`, `/cost`, `/model` and the permission mode, on lines of any width."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from scene_kit import scene

from midstream.app.commands.cost_command import cost_lines, days_lines
from midstream.app.commands.handler import CommandHandler
from midstream.app.commands.history_commands import MAX_FILES, capped, stat_lines
from midstream.app.commands.permission_commands import CYCLE, next_mode
from midstream.core.events import Usage
from midstream.language.errors import UserMistake
from midstream.language.spec import Role, ToolSpec
from midstream.safety.policy import Policy
from midstream.testing.fakes import Scripted, says
from midstream.tools.permissions import Permissions
from midstream.tui.changed_lines import changed_lines
from midstream.tui.styled_lines import rows, to_plain
from midstream.views.cells import width_of
from midstream.views.side_effects import ChangedFile, FileDiff
from midstream.views.spending import Spent

WIDTHS = (40, 80, 200)


def changed(path: str, lines: int, note: str = "") -> ChangedFile:
    diff = "\n".join(["@@ -0,0 +1 @@", *(f"+line {n}" for n in range(lines))])
    return ChangedFile(diff=FileDiff(path=path, added=lines, removed=0, diff=diff), note=note)


class Told:
    """A session that gives changes and models, and hears what is told."""

    def __init__(self, *found: ChangedFile) -> None:
        self.found = found
        self.told: list[str] = []
        self.shown: list[ChangedFile] = []
        self.used: list[tuple[str | None, str | None]] = []
        self.ui = self.history = self.background = self.parts = self
        self.models = self.library = self.config = self

    async def changes(self) -> tuple[ChangedFile, ...]:
        return self.found

    def say(self, text: str) -> None:
        self.told.append(text)

    def show_changes(self, changes: list[ChangedFile]) -> None:
        self.shown += changes

    def levels(self) -> tuple[tuple[str, str, str], ...]:
        now = {level: name for name, level in self.used}
        return tuple(
            (level, now.get(level) or now.get(None) or name, name)
            for level, name in (("base", "openai:gpt-5.6-terra"), ("smart", "openai:gpt-5.6-sol"))
        )

    def known(self) -> tuple[tuple[str, str], ...]:
        return (("base", "openai:gpt-5.6-terra"), ("no LLM", "offline"))

    def names(self) -> tuple[str, ...]:
        return ("openai:gpt-6-astra",)

    def roles(self) -> dict[str, Role]:
        return {"dude": Role(), "coder": Role(level="smart")}

    async def doubts(self, name: str) -> str:
        if name == "gpt-5":
            raise UserMistake("'gpt-5' is not the name of a model.")
        return "It is tried all the same." if name.endswith("slo") else ""

    def use(self, name: str | None, level: str | None = None) -> None:
        self.used.append((name, level))


async def said(session: Told, line: str) -> Told:
    async with asyncio.timeout(DEADLINE_S):
        await CommandHandler(session).handle(line)  # type: ignore[arg-type]
    return session


# --- /diff ------------------------------------------------------------------------------------


async def test_diff_shows_every_file_and_cuts_the_long_one() -> None:
    told = await said(Told(changed("a.py", 1_000), changed("b.py", 5)), "/diff")

    first, second = told.shown
    lines = first.diff.diff.split("\n")
    assert len(lines) == 100
    assert lines[-1] == "[+902 more lines: /diff a.py]"
    assert second.diff.diff.endswith("+line 4")


async def test_diff_of_a_file_takes_the_end_of_its_path_and_is_whole() -> None:
    files = (changed("src/deep/a.py", 1_000), changed("b.py", 5))
    told = await said(Told(*files), "/diff deep/a.py")

    assert told.shown == [files[0]]


@pytest.mark.parametrize(
    ("name", "why"),
    [("c.py", "has not written c.py"), ("a.py", "Several files end in a.py")],
)
async def test_a_file_that_is_none_or_several_is_told(name: str, why: str) -> None:
    files = (changed("x/a.py", 1), changed("y/a.py", 1))
    with pytest.raises(UserMistake, match=why):
        await said(Told(*files), f"/diff {name}")


async def test_what_is_as_before_and_what_is_too_much_is_counted() -> None:
    same = ChangedFile(
        diff=FileDiff(path="same", added=0, removed=0, diff=""), note="as before", is_same=True
    )
    many = [changed(f"f{n}", 1) for n in range(MAX_FILES + 3)]
    told = await said(Told(*many, same), "/diff")

    assert len(told.shown) == MAX_FILES
    assert told.told == [
        "+3 more files: /diff --stat lists them; 1 file written, but the same as before."
    ]
    assert (await said(Told(same), "/diff")).told == [
        "1 file written, but all the same as before the run."
    ]
    assert "has written no file" in (await said(Told(), "/diff")).told[0]


def test_many_long_files_are_all_in_sight() -> None:
    shown = capped([changed(f"f{n}", 500) for n in range(40)], 200)

    assert sum(each.diff.diff.count("\n") + 1 for each in shown) == 200
    assert all("more lines: /diff f" in each.diff.diff for each in shown)


@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_figures_fit_the_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.app.commands.command.columns", lambda: columns)
    files = (
        changed("src/a/very/long/path/to/some/where/deep.py", 1_234, "changed by others since"),
        changed("b.py", 2),
    )
    (text,) = (await said(Told(*files), "/diff --stat")).told

    lines = text.split("\n")
    assert max(map(width_of, lines)) <= columns - 2
    assert lines[-1] == "2 files, +1,236 -0"
    assert "deep.py" in lines[0]
    assert "changed by others since" in text


def test_stat_draws_each_file_to_one_scale() -> None:
    assert stat_lines([changed("a", 4), changed("bb", 2)], width=60) == [
        "a   +4 -0  ++++",
        "bb  +2 -0  ++",
        "2 files, +6 -0",
    ]


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_difference_is_drawn_within_the_width_and_without_colour_too(columns: int) -> None:
    lines = changed_lines([changed("a\x1b[31m.py", 2, "changed by others since")])

    drawn = [row for line in lines for row in rows(line, columns)]
    assert max(width_of("".join(text for _, text in row)) for row in drawn) <= columns
    plain = to_plain(lines)
    assert "\x1b" not in plain
    assert "+2 -0  (changed by others since)\n  ┊ @@ -0,0 +1 @@\n  ┊ +line 0\n" in plain


async def test_the_console_shows_what_its_chat_has_written(tmp_path: Path) -> None:
    async with scene(tmp_path, "One.") as made:
        await made.type("hello")
        await made.engine.machines()[0].settled()
        assert (await made.type("/diff")).kind == "taken"
        assert "This run has written no file." in made.ui.said[-1]


# --- /cost ------------------------------------------------------------------------------------


def spent(run: str, agent: str, model: str, at: float = 100.0) -> Spent:
    usage = Usage(model=model, input_tokens=10, output_tokens=5, cost_usd="0.01")
    return Spent(run=run, name="chat", agent=agent, at=at, usage=usage)


SPENT = [
    spent("a", "ada", "m1"),
    spent("a", "ben", "m1"),
    spent("b", "ada", "m2"),
    spent("c", "ada", "m1", at=10.0),
    spent("d", "ada", "m1"),
]


def test_costs_are_told_by_run_agent_model_and_for_the_day() -> None:
    text = "\n".join(cost_lines(SPENT, own={"a", "b"}, today=50.0, width=80))

    runs, agents, models, day = text.split("\n\n")
    assert [line.split()[:3] for line in runs.split("\n")][1:4] == [
        ["a", "chat", "ada"],
        ["ben", "m1", "1"],
        ["b", "chat", "ada"],
    ]
    assert runs.endswith("$0.0300")
    assert agents.split("\n")[1].split() == ["ada", "2", "20", "10", "$0.0200"]
    assert models.split("\n")[1].split() == ["m1", "2", "20", "10", "$0.0200"]
    assert day.startswith("today, 3 runs of this folder\n")
    assert day.endswith("$0.0400")


def test_a_day_that_was_all_ours_is_not_told_twice() -> None:
    lines = cost_lines(SPENT[:1], own={"a"}, today=50.0, width=80)

    assert lines[-1] == "All of this was spent today; no other run of this folder cost anything."
    assert cost_lines([], own=set(), today=0.0, width=80)[0].startswith("No model has replied yet")


@pytest.mark.parametrize("width", [38, 78, 198])
def test_costs_fit_the_width(width: int) -> None:
    lines = cost_lines(SPENT, own={"a", "b"}, today=50.0, width=width)

    assert max(map(width_of, [*lines, *days_lines(SPENT, width=width)])) <= width


CENT = Usage(model="m", input_tokens=10, output_tokens=5, cost_usd="0.01")


def replies(*texts: str) -> list[Scripted]:
    """Return replies that cost a cent each."""
    return [msgspec.structs.replace(says(text), usage=CENT) for text in texts]


async def test_what_was_undone_was_paid_for_and_counts_once(tmp_path: Path) -> None:
    async with scene(tmp_path, *replies("One.", "Two.", "Three.")) as made:
        for line in ("first", "second", "/undo", "/redo", "/undo", "third"):
            assert (await made.type(line)).kind == "taken"
            active = made.session.active()
            assert active is not None
            await active.settled()
            made.console.status()
        assert len(made.engine.machines()) == 4

        await made.type("/cost")

        (total,) = [line for line in made.ui.said[-1].split("\n") if line.startswith("total")]
        assert total.split() == ["total", "3", "30", "15", "$0.0300"]
        assert made.console.status().cost == "$0.0300"
        assert made.ui.said[-1].endswith("sets one for each run.")


# --- /model -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("/model smart openai:gpt-6-astra", ("openai:gpt-6-astra", "smart")),
        ("/model openai:gpt-6-astra", ("openai:gpt-6-astra", None)),
        ("/model smart default", (None, "smart")),
        ("/model default", (None, None)),
        ("/model smart openai:gpt-6 --effort high", ("openai:gpt-6 high", "smart")),
        ("/model openai:gpt-6 low", ("openai:gpt-6 low", None)),
        ("/model smart --effort medium", ("openai:gpt-5.6-sol medium", "smart")),
    ],
)
async def test_a_model_is_chosen_for_one_level_or_all(line: str, used: tuple[Any, Any]) -> None:
    told = await said(Told(), line)

    assert told.used == [used]
    assert told.told[0].startswith("From the next request on:\nbase")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/model smrt openai:gpt-5", "no level 'smrt'"),
        ("/model smart", "Which model should answer smart?"),
        ("/model a b c", "takes a level and a model"),
        ("/model gpt-5", "is not the name of a model"),
        ("/model smart openai:gpt-5 --effort hihg", "'hihg' is no effort.*Did you mean 'high'"),
        ("/model --effort", "How hard should it think"),
        ("/model --effort high openai:gpt-5", "takes a level and a model"),
        ("/model default --effort high", "takes the effort of the settings"),
    ],
)
async def test_a_wrong_choice_changes_nothing(line: str, why: str) -> None:
    told = Told()
    with pytest.raises(UserMistake, match=why):
        await said(told, line)

    assert told.used == []


async def test_an_effort_alone_is_for_the_models_all_levels_have() -> None:
    told = await said(Told(), "/model --effort high")
    assert told.used == [
        ("openai:gpt-5.6-terra high", "base"),
        ("openai:gpt-5.6-sol high", "smart"),
    ]

    told = await said(told, "/model smart --effort low")
    assert told.used[-1] == ("openai:gpt-5.6-sol low", "smart")


async def test_the_efforts_of_models_and_roles_are_listed() -> None:
    told = Told()
    told.roles = lambda: {"dude": Role(effort="low"), "coder": Role(level="smart")}  # type: ignore[method-assign]
    told.use("openai:gpt-5.6-sol high", "smart")

    (text,) = (await said(told, "/model")).told

    assert text.split("\n")[:2] == [
        "base   openai:gpt-5.6-terra · dude (low)",
        "smart  openai:gpt-5.6-sol high (the settings name openai:gpt-5.6-sol) · coder",
    ]


async def test_what_speaks_against_a_name_is_told_at_once() -> None:
    told = await said(Told(), "/model smart openai:gpt-5.6-slo")

    assert told.told[0].endswith("\nIt is tried all the same.")
    assert "(the settings name openai:gpt-5.6-sol)" in told.told[0]


async def test_the_levels_are_listed_with_who_uses_them() -> None:
    (text,) = (await said(Told(), "/model")).told

    assert text.split("\n")[:3] == [
        "base   openai:gpt-5.6-terra · dude",
        "smart  openai:gpt-5.6-sol · coder",
        "Also: offline.",
    ]


def test_levels_and_names_complete() -> None:
    commands = CommandHandler(Told())  # type: ignore[arg-type]

    words = [word for word, _ in commands.completions("/model ")]
    assert words == [
        *("base", "smart", "openai:gpt-5.6-terra", "offline", "default"),
        "openai:gpt-6-astra",
    ]
    assert [word for word, _ in commands.completions("/model smart openai:gpt-6")] == [
        "openai:gpt-6-astra"
    ]
    for before in ("smart", "openai:gpt-6-astra", "smart openai:gpt-6-astra"):
        assert [word for word, _ in commands.completions(f"/model {before} --")] == ["--effort"]
    assert [word for word, _ in commands.completions("/model --effort ")] == [
        *("low", "medium", "high")
    ]
    assert commands.completions("/model nonsense o") == ()


# --- the permission mode ----------------------------------------------------------------------


def test_the_modes_go_round_and_never_to_full() -> None:
    permissions = Permissions(Policy())
    seen = [(next_mode(permissions), permissions.mode)[1] for _ in range(6)]

    assert seen == ["auto", "plan", "ask"] * 2
    assert "full" not in CYCLE
    assert all(
        len(next_mode(Permissions(Policy(mode=mode, sandbox=sandbox)))) <= 37  # a line of 40
        for mode in ("plan", "ask", "auto", "full")
        for sandbox in ("none", "full")
    )


def test_full_is_left_for_ask() -> None:
    permissions = Permissions(Policy(mode="full"))

    assert next_mode(permissions) == "ask: full is over until you restart"
    assert permissions.mode == "ask"


def test_an_untrusted_workspace_stays_as_it_is() -> None:
    permissions = Permissions(Policy(is_untrusted=True))

    with pytest.raises(UserMistake, match="not trusted"):
        next_mode(permissions)

    assert permissions.mode == "ask"


async def test_the_bottom_line_says_the_new_mode_at_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        assert made.console.next_permission_mode().startswith("auto: ")
        assert made.console.status().permission.startswith("auto")
        made.console.next_permission_mode()
        assert made.console.status().permission.startswith("plan")


# --- lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", WIDTHS)
async def test_tools_and_workflows_stand_in_columns_of_any_width(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    session = Told()
    words = "word " * 30
    spec = ToolSpec(name="read_files", description=words, parameters={})
    session.tools = {"read_files": spec}  # type: ignore[attr-defined]
    session.workflows = lambda: {"fix_tests": words}  # type: ignore[attr-defined]
    await said(session, "/tools")
    await said(session, "/workflows")

    for told, first in zip(session.told, ("read_files", "fix_tests"), strict=True):
        top, *rest = told.splitlines()
        assert top.startswith(first)
        assert all(line.startswith("  ") for line in rest)
        assert max(map(len, (top, *rest))) <= columns - 2
    assert session.told[-1].endswith("\n  /workflow NAME starts one.")


# --- lines that cannot be done ----------------------------------------------------------------


@pytest.mark.parametrize("line", ["/clear the table", "/tools x", "/redo 2", "/exit now"])
async def test_a_command_that_takes_nothing_is_not_done_with_words_behind_it(line: str) -> None:
    with pytest.raises(UserMistake, match=f"{line.split()[0]} takes nothing, not"):
        await said(Told(), line)


async def test_revoke_without_a_number_is_told_what_is_missing() -> None:
    with pytest.raises(UserMistake, match="Which grant") as refused:
        await said(Told(), "/permissions revoke")
    assert "/permissions revoke NUMBER" in str(refused.value)


def test_a_model_of_several_levels_is_offered_once_with_all_of_them() -> None:
    session = Told()
    session.known = lambda: (("base", "a:x"), ("smart", "a:x"), ("no LLM", "offline"))  # type: ignore[method-assign]
    commands = CommandHandler(session)  # type: ignore[arg-type]

    pairs = commands.completions("/model smart ")
    assert pairs[:2] == (("a:x", "base, smart"), ("offline", "no LLM"))


def test_the_values_of_a_setting_complete_behind_its_key() -> None:
    session = Told()
    session.explain = lambda: ()  # type: ignore[attr-defined]
    commands = CommandHandler(session)  # type: ignore[arg-type]

    assert [word for word, _ in commands.completions("/config editing ")] == ["emacs", "vi"]
    assert [word for word, _ in commands.completions("/config set editing v")] == ["vi"]
    assert ("openai:gpt-6-astra", "") in commands.completions("/config models.fast ")
    assert commands.completions("/config budget.usd ") == ()
