"""Whole screens at 40, 80 and 200 columns, compared as text with the files in `screens/`.

A story is what a person does; what then stands on the screen and above it is a file, row by row. After a
wanted change look at what the screens have become, and keep it:

    MIDSTREAM_KEEP_SCREENS=1 pytest tests/tui/test_screens_as_text.py
    git diff tests/tui/screens
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from screen import CTRL_C, DOWN, ENTER, ESC, TAB, UP, Screen, ScreenTimeout, Spawn

SCREENS = Path(__file__).with_name("screens")
ROWS = {40: 40, 80: 30, 200: 50}
Story = Callable[[Screen, Path], None]


def does(screen: Screen, line: str, shown: str) -> None:
    """Send a line and wait until something stands there."""
    screen.type(line + ENTER)
    screen.wait_for(shown)
    screen.settle()


def queues(screen: Screen, line: str) -> None:
    """Type a line and queue it with Tab, which counts once the typing has paused."""
    screen.type(line)
    screen.settle()
    screen.type(TAB)
    screen.wait_for(f"⏳ {line[:20]}")
    screen.settle()


# --- the stories --------------------------------------------------------------------------------


def steering(screen: Screen, _: Path) -> None:
    """Lines wait beside work that goes on, and a question with choices is asked meanwhile."""
    does(screen, "/busy", "› /busy")
    queues(screen, "and the tests, once it is done, with all that belongs to them")
    queues(screen, "in German")
    does(screen, "/ask", "2 blue")
    screen.type(DOWN + DOWN)
    screen.wait_for("▸2")


def taken_back(screen: Screen, _: Path) -> None:
    """The newest line that waits is in the editor again."""
    does(screen, "/busy", "› /busy")
    queues(screen, "first words")
    queues(screen, "second words")
    screen.type(UP)
    screen.wait_for("› second words")
    screen.settle()


def cards(screen: Screen, _: Path) -> None:
    """Two questions and a call that waits, the second one marked."""
    does(screen, "/two", "Second?")
    does(screen, "/command git push --force origin main && echo done", "git push")
    screen.type(TAB)
    screen.settle()


def approval(screen: Screen, _: Path) -> None:
    """A call waits to be decided on, with a half-typed line in the editor."""
    does(screen, "/approve", "rm -rf")
    screen.type("wait a moment")
    screen.settle()


def form(screen: Screen, _: Path) -> None:
    """A form with its first field entered, and a value that does not fit in the second."""
    does(screen, "/form", "What is it?")
    screen.type(ENTER)
    screen.wait_for("kind ›")
    screen.type("bug" + ENTER)
    screen.wait_for("lines ›")
    screen.type("none" + ENTER)
    screen.wait_for("✗")
    screen.settle()


def reading(screen: Screen, _: Path) -> None:
    """Finished work in the scrollback, words that stream above the prompt, and a halt."""
    does(screen, "/tool", "read_files")
    does(screen, "/md", "second")
    does(
        screen, "/respond 日本語の text, naïve e\u0301, 👍, and so on until it is wrapped", "日本語"
    )
    does(screen, "/respond שלום (1) and on", "and on")
    does(screen, "/cut", "half a th")
    does(screen, "/stream", "a time")


def foreign(screen: Screen, _: Path) -> None:
    """An agent's words with control sequences and a prompt in them."""
    does(screen, "/hostile", "before")


def writing(screen: Screen, _: Path) -> None:
    """A folded paste, several lines, and the commands that begin so."""
    screen.paste("\n".join(f"line {number}" for number in range(214)))
    screen.wait_for("[pasted 214 lines")
    screen.type("\x1b" + ENTER + "what is\twrong here? 日本語")
    screen.settle()
    screen.type(CTRL_C)
    screen.settle()
    screen.type("/he")
    screen.wait_for("what there is")


def mentions(screen: Screen, _: Path) -> None:
    """Files are offered for a mention in the middle of a line."""
    screen.type("look at @src")
    screen.wait_for("@src/other.py")


def shell(screen: Screen, _: Path) -> None:
    """A command of one's own has run and its output is offered."""
    does(screen, "!echo one; echo two", "adds it to")


def unclear(screen: Screen, folder: Path) -> None:
    """A question came while a line was being typed: the line is asked about."""
    does(screen, "/later go", "› /later go")
    screen.type("no, rename it")
    screen.settle()
    (folder / "go").touch()
    screen.wait_for("Which colour?")
    screen.type(ENTER)
    screen.wait_for("n new instruction")


def stopped(screen: Screen, _: Path) -> None:
    """Esc has stopped the turn; a line was refused and is in the editor again."""
    does(screen, "/busy", "› /busy")
    screen.type(ESC)
    screen.wait_for("halted")
    does(screen, "/refuse", "›")
    does(screen, "purple", "not one of the choices")


def graph(screen: Screen, _: Path) -> None:
    """The graph is followed to where the run is, while an agent speaks."""
    does(screen, "/follow", "start ")
    for state in ("look", "plan", "mend", "review", "mend"):
        does(screen, f"/move {state}", f"› /move {state}")
    does(screen, "/stream", "a time")
    screen.wait_for("◀ ×2")


def graph_card(screen: Screen, _: Path) -> None:
    """A question has its card, and the graph what that leaves of a third of the screen."""
    does(screen, "/follow", "start ")
    does(screen, "/move mend", "› /move mend")
    does(screen, "/ask", "2 blue")


def graph_over(screen: Screen, _: Path) -> None:
    """The run is over: nothing above the prompt."""
    does(screen, "/follow", "◀ ×1")
    does(screen, "/move look", "look  ")
    does(screen, "/over", "/graph draws")


STORIES: tuple[Story, ...] = (
    *(steering, taken_back, cards, approval, form, reading),
    *(foreign, writing, mentions, shell, unclear, stopped, graph, graph_card, graph_over),
)


# --- comparing ----------------------------------------------------------------------------------


def shown(screen: Screen) -> str:
    """Return all rows, those that have scrolled out at the top included."""
    return "\n".join(screen.scrollback()).rstrip() + "\n"


@pytest.mark.parametrize("cols", ROWS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_screen_is_as_kept(spawn: Spawn, tmp_path: Path, story: Story, cols: int) -> None:
    screen = spawn(cols=cols, rows=ROWS[cols], cwd=tmp_path)
    story(screen, tmp_path)
    screen.settle()

    path = SCREENS / f"{story.__name__}-{cols}.txt"
    if os.environ.get("MIDSTREAM_KEEP_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown(screen), encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    with contextlib.suppress(ScreenTimeout):
        # A busy machine may be slow to draw the last of it.
        screen.wait_until(lambda s: shown(s) == kept, 60.0)
    assert shown(screen) == kept, f"see {Path(__file__).name} on how to keep it"
    assert all(len(row) <= cols for row in screen.lines())


def test_there_is_no_screen_that_no_story_tells() -> None:
    told = {f"{story.__name__}-{cols}.txt" for story in STORIES for cols in ROWS}

    assert {path.name for path in SCREENS.iterdir()} == told
