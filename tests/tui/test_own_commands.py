"""`!command`: run by the person's own shell, shown as it comes, its output offered and never sent."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from deadline import DEADLINE_S, wait_until
from screen import is_running

from midstream.app.own_commands import LAST_LINES, MAX_SHOWN_LINES, as_seen, run_own_command
from midstream.app.ui import OwnCommandEnded
from midstream.tui.completion import is_own, words_of


class Heard:
    """What was told of a command's output."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.open = ""
        self.told = asyncio.Event()

    def __call__(self, lines: tuple[str, ...], open: str) -> None:
        self.lines += lines
        self.open = open
        self.told.set()


def wait_until_gone(pid: int) -> None:
    """Return once a process that was killed has ended: a busy system takes its time with that."""
    wait_until(lambda: not is_running(pid), f"{pid} has ended")


async def run(
    command: str, folder: Path, *, heard: Heard | None = None, stop: asyncio.Event | None = None
) -> OwnCommandEnded:
    async with asyncio.timeout(DEADLINE_S):
        return await run_own_command(
            command, folder, stop=stop or asyncio.Event(), hears=heard or Heard()
        )


@pytest.mark.parametrize(
    ("line", "is_a_command", "words"),
    [
        ("!ls", True, "!ls"),
        ("!", True, "!"),
        ("! [ -f x ]", True, "! [ -f x ]"),
        ("!!important", False, "!important"),
        ("![a picture](x.png)", False, "![a picture](x.png)"),
        ("ls!", False, "ls!"),
        (" !ls", False, " !ls"),
    ],
)
def test_which_lines_are_commands(line: str, is_a_command: bool, words: str) -> None:
    assert is_own(line) == is_a_command
    assert words_of(line) == words


async def test_a_command_runs_in_the_workspace_and_its_output_is_told_and_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    heard = Heard()
    ended = await run("cat a.txt; echo sorry >&2; exit 3", tmp_path, heard=heard)

    assert heard.lines == ["hello", "sorry"]
    assert (ended.words, ended.lines) == ("exit code 3", 2)
    assert ended.text == (
        "I ran a command in my own shell:\n\n"
        "$ cat a.txt; echo sorry >&2; exit 3\nhello\nsorry\n[exit code 3]"
    )


async def test_it_is_told_before_it_has_ended_a_line_begun_as_well(tmp_path: Path) -> None:
    heard = Heard()
    stop = asyncio.Event()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        work = group.create_task(
            run("echo first; printf half; exec sleep 60", tmp_path, heard=heard, stop=stop)
        )
        while (heard.lines, heard.open) != (["first"], "half"):
            await heard.told.wait()
            heard.told.clear()
        stop.set()
        ended = await work

    assert ended.words == "stopped, ended by SIGINT"
    assert heard.lines == ["first", "half"]


async def test_its_keys_are_redacted_on_the_screen_and_in_the_offer(tmp_path: Path) -> None:
    heard = Heard()
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    ended = await run(f"printf 'key={key}\\n'", tmp_path, heard=heard)

    assert key not in "".join(heard.lines)
    assert key not in ended.text


async def test_endless_output_is_bounded(tmp_path: Path) -> None:
    heard = Heard()
    ended = await run("seq 1 200000", tmp_path, heard=heard)

    assert ended.lines == 200_000
    assert "only the end is shown" in heard.lines[MAX_SHOWN_LINES]
    last = range(200_001 - LAST_LINES, 200_001)
    assert heard.lines[MAX_SHOWN_LINES + 1 :] == [str(number) for number in last]
    assert len(ended.text) < 41_000
    assert "characters left out" in ended.text


async def test_the_end_of_a_flood_is_redacted_too(tmp_path: Path) -> None:
    heard = Heard()
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    await run(f"seq 1 3000; printf 'key={key}\\n1 failed\\n'", tmp_path, heard=heard)

    assert heard.lines[-1] == "1 failed"
    assert heard.lines[-2].startswith("key=")
    assert key not in "".join(heard.lines)


async def test_a_bar_that_is_drawn_over_shows_as_it_ended_and_nothing_draws(tmp_path: Path) -> None:
    heard = Heard()
    ended = await run(r"printf '10%%\r100%%\n\033[2Jx\n'", tmp_path, heard=heard)

    assert heard.lines[0] == "100%"
    assert "\x1b" not in ended.text


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("seq 1 5000; printf last", 5_001),
        ("seq 1 5000", 5_000),
        (f"seq 1 {MAX_SHOWN_LINES}", MAX_SHOWN_LINES),
        (f"seq 1 {MAX_SHOWN_LINES}; sleep 0.2; printf more", MAX_SHOWN_LINES + 1),
        ("yes '' | head -c 3000000", 3_000_000),
        ("seq 1 1990; sleep 0.1; seq 1 100; sleep 0.1; seq 1 100", 2_190),
    ],
)
async def test_lines_that_are_not_shown_are_counted(
    tmp_path: Path, command: str, lines: int
) -> None:
    heard = Heard()
    ended = await run(command, tmp_path, heard=heard)

    assert ended.lines == lines
    beyond = min(max(lines - MAX_SHOWN_LINES, 0), LAST_LINES)
    assert len(heard.lines) == min(lines, MAX_SHOWN_LINES) + (1 + beyond if beyond else 0)


async def test_a_line_without_an_end_is_one_line_and_bounded(tmp_path: Path) -> None:
    heard = Heard()
    ended = await run("head -c 3000000 /dev/zero | tr '\\0' x", tmp_path, heard=heard)

    assert ended.lines == 1
    assert len(heard.lines) == 1
    assert heard.lines[0].endswith("x [+2,996,000 more characters]")


async def test_long_lines_are_shown_up_to_so_many_characters(tmp_path: Path) -> None:
    heard = Heard()
    command = "for i in 1 2 3; do head -c 300000 /dev/zero | fold -w 3000 | tr '\\0' x; echo; done"
    await run(command, tmp_path, heard=heard)

    assert sum(map(len, heard.lines)) < 450_000
    assert "[there is more: of the rest only the end is shown]" in heard.lines


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("\x1b[31mred\x1b[0m\x1b[K", "red"),
        ("\x1b[38;2;1;2;3;4mx", "x"),
        ("NAME", "NAME"),
        ("N\bNA\bA _\bx", "NA x"),
        ("abc\b\b\bxyz", "xyz"),
        ("\bx", "\bx"),
        pytest.param("a" * 200_000 + "\b" * 200_000, "", id="much, which takes no square of it"),
        ("\x1b[2Jx\x1b[1A", "\x1b[2Jx\x1b[1A"),
        ("one\rtwo\r\r", "two"),
    ],
)
def test_a_line_is_as_a_terminal_ends_up_showing_it_without_colours(line: str, seen: str) -> None:
    assert as_seen(line) == seen


async def test_a_bar_that_is_drawn_over_and_over_never_grows(tmp_path: Path) -> None:
    heard = Heard()
    bar = "import sys\nfor n in range(20000): sys.stdout.write(f'{n} of 20000\\r')"
    (tmp_path / "bar.py").write_text(bar)
    ended = await run("python3 bar.py", tmp_path, heard=heard)

    assert heard.lines == ["19999 of 20000"]
    assert ended.lines == 1


async def test_a_key_that_was_parted_by_characters_taken_back_is_redacted(tmp_path: Path) -> None:
    heard = Heard()
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    (tmp_path / "out").write_text(f"key={key[:20]}z\b{key[20:]}\n")
    ended = await run("cat out", tmp_path, heard=heard)

    assert key not in "".join(heard.lines)
    assert key not in ended.text


async def test_what_is_offered_is_what_was_shown(tmp_path: Path) -> None:
    ended = await run(r"printf '\033[1m10%%\r100%%\033[0m\n'", tmp_path)

    assert ended.text.endswith("\n100%\n[exit code 0]")


async def test_cancelling_kills_what_it_started(tmp_path: Path) -> None:
    heard = Heard()
    command = "trap '' INT TERM; sleep 1000 & echo $!; wait"
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        work = group.create_task(run(command, tmp_path, heard=heard))
        while not heard.lines:
            await heard.told.wait()
            heard.told.clear()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    wait_until_gone(int(heard.lines[0]))
