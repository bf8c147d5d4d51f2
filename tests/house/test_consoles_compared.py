"""The driver that compares consoles works, and its tables hold what it found. No rival is started here."""

import re
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.consoles import steps
from benchmarks.consoles.report import FEATURES, Row, tables
from benchmarks.consoles.start import Installed, install, made_home
from benchmarks.consoles.table import BARE, MIDSTREAM, RIVALS, Console

TINY = Console(
    name="tiny",
    by="",
    program=(sys.executable, str(Path(__file__).with_name("tiny_console.py"))),
    resume=("--continue",),
    prompt="^>",
    env={"OPENAI_BASE_URL": "$URL/v1"},
)


@pytest.mark.skipif(
    sys.platform != "linux", reason="a terminal is given with setsid, and /proc is read"
)
def test_a_tiny_console_is_taken_through_the_steps_and_stands_in_the_tables(tmp_path: Path) -> None:
    tiny = Installed(
        console=TINY, bin="", path="/usr/bin:/bin", version="1.0", help="--fork\n--mcp FILE"
    )
    row = Row(console=tiny, troubles={"a step": "TimeoutError: it never came"})
    bare = Row(console=install(BARE, tmp_path))

    with made_home() as home:
        start, row.first = steps.begun(tiny, home)
    with made_home() as home:
        floor, _ = steps.begun(bare.console, home)
    row.starts.append(msgspec.structs.replace(start, floor_s=floor.usable_s))
    row.typed = steps.line_while_streaming(tiny)
    row.stopped = steps.stopped_in_a_word(tiny)
    row.killed = steps.killed_while_streaming(tiny)
    found = tables([bare, row])

    assert start.usable_s > 0
    assert start.pss_mb > 0
    assert (row.first.system, row.first.tools) == (len("You are tiny."), ("web_fetch",))
    assert "sends the line" in found
    assert (row.stopped.partial, row.stopped.words, row.stopped.on_screen) == ("whole", True, True)
    assert "[interrupted]" in row.stopped.mark
    assert (row.killed.seen, row.killed.asked) == (("words",), ("words",))
    assert "| fetches pages | `web_fetch` |" in found
    assert "`--fork`" in found
    assert "* tiny, a step: TimeoutError" in found
    for table in re.findall(r"(?:^\|.*\n?)+", found, re.M):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1


def test_every_console_of_the_table_says_how_it_is_installed_started_and_stopped() -> None:
    every = (MIDSTREAM, *RIVALS)

    assert len({each.name for each in every}) == len(every)
    for each in every:
        assert bool(each.package) == (each.by != ""), each.name
        assert re.compile(each.prompt), each.name
        assert each.stop, each.name
        assert each.stop_name, each.name
        assert not any("/root" in word or "/home" in word for word in each.program), each.name
        assert each.resume, each.name
    assert all(tool or flag for tool, flag in FEATURES.values())
