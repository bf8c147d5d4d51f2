"""`/graph` and `/state`: a run's workflow followed above the prompt, and what is there once it is over."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from console_kit import console, run, write_workflow
from scene_kit import scene
from screen import Screen
from support.openai_server import Gate, OpenAIServer, Reply

from midstream.store.memory import MemoryStore
from midstream.tui.graph_panel import OVER

MODEL = ("--model", "openai:gpt-4o-mini")
STATES = ("start", "look", "mend", "review")
TRIAGE: dict[str, Any] = {
    "workflow_name": "triage",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        *(
            {"name": name, "agent": "dude", "prompt": f"Now {name}.", "next": following}
            for name, following in zip(STATES, (*STATES[1:], "stop"), strict=True)
        ),
        {"name": "stop"},
    ],
}
COMMANDS = "/workflow triage\n/graph follow\n/graph off\n"


def above_the_prompt(screen: Screen, rows: int) -> list[str]:
    """Return the third of the screen over the line being typed."""
    lines = screen.lines()
    prompt = max((n for n, line in enumerate(lines) if line.startswith("›")), default=0)
    return lines[max(0, prompt - rows // 3) : prompt]


def shows(lines: list[str], *parts: str) -> bool:
    """Return whether each of these stands in some line."""
    return all(any(part in line for line in lines) for part in parts)


def stands_above(rows: int, parts: tuple[str, ...], screen: Screen) -> bool:
    """Return whether each of these stands over the line being typed."""
    return shows(above_the_prompt(screen, rows), *parts)


@pytest.mark.parametrize(("cols", "rows"), [(40, 24), (80, 24), (200, 50)])
def test_the_graph_follows_the_run_and_goes_when_that_is_over(
    tmp_path: Path, cols: int, rows: int
) -> None:
    write_workflow(tmp_path / "config", "triage", TRIAGE)
    gates = [Gate() for _ in STATES]
    words = "\n".join(f"word {n}" for n in range(40))
    replies = [Reply(chunks=(words, " done."), gate=gate) for gate in gates]
    with (
        OpenAIServer(replies) as server,
        console(
            tmp_path,
            *("--mode", "workflow:triage", *MODEL),
            server=server,
            cols=cols,
            rows=rows,
        ) as screen,
    ):
        screen.wait_for("interrupts dude")
        screen.type("/graph follow\r")
        for state, gate in zip(STATES, gates, strict=True):
            # The words that stream have no end: where the run is stands beside them all the same.
            parts = (f"┃ {state} ", "word 39", "dude is writing · ")
            screen.wait_until(
                partial(stands_above, rows, parts),
                what=f"the graph at {state} beside what is said there",
            )
            assert shows(above_the_prompt(screen, rows), "◀ ×1")
            assert max(map(len, screen.lines())) <= cols
            gate.open()
        screen.wait_for("chat with dude")
        screen.wait_for(OVER)
        screen.settle()
        assert not shows(screen.lines(), "┃")

        screen.type("/graph\r")
        screen.wait_for("◉ stop")
        screen.wait_until(
            lambda s: "this is the last one:" in " ".join(" ".join(s.scrollback()).split()),
            what="the graph of the workflow before",
        )
        screen.type("\x0c/graph follow\r")
        screen.wait_until(
            lambda s: "NAME starts one" in " ".join(s.text().split()), what="that none is active"
        )


def test_a_console_without_a_terminal_says_so_and_draws_it_once(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "triage", TRIAGE)

    told = run(tmp_path, "--model", "offline", lines=COMMANDS).stdout

    assert "Following a graph needs a terminal." in told
    assert told.count("◉ stop") == 1
    assert "No graph is followed now." in told


async def test_a_workflow_that_has_ended_is_shown_until_something_else_is_spoken_to(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    replies = ("Hello.", "Done.", "I hear you.")
    async with scene(tmp_path, *replies, store=store.beside()) as made:
        await made.type("hello")
        await made.type("/workflow review")
        machine = made.session.active()
        assert machine is not None
        await machine.wait()

        await made.type("/state")
        assert made.ui.said[-1].startswith("No workflow is active; this is the last one:\n")
        assert f"{machine.run.id}  review: finished" in made.ui.said[-1]
        await made.type("/graph")
        assert f"last one: {machine.run.id}  review: finished" in made.ui.said[-1]
        await made.type("hello")
        await made.type("/state")
        assert "role:dude" in made.ui.said[-1]
        await made.type("/graph")
        assert f"last one: {machine.run.id}  review: finished" in made.ui.said[-1]

    async with scene(tmp_path, store=store.beside()) as made:
        await made.type("/graph")
        assert f"last one: {machine.run.id}  review: finished" in made.ui.said[-1]
        await made.type("/state")
        assert "Nothing has been said yet. No workflow is active" in made.ui.said[-1]


async def test_where_no_workflow_ever_ran_there_is_none_to_show(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        told = await made.type("/graph")
        assert told.reason.startswith("No workflow is active.")
        await made.type("/state")
        assert made.ui.said[-1] == "Mode role:dude. Nothing has been said yet."
