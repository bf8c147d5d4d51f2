"""Foreign text tries to move, clear, colour, rename or imitate: it only ever stands there as text."""

import sys
from pathlib import Path

import pyte
import pytest
from console_kit import run, write_workflow
from pipes_kit import MODEL
from screen import ENTER, Screen

from midstream.console.lines import Line, rows, to_ansi, to_plain
from midstream.console.live import LiveText
from midstream.console.painting import own_words, question_lines, speech, typed
from midstream.console.view import in_full
from midstream.core.events import ToolCalled
from midstream.core.question import Question
from midstream.testing.openai_server import OpenAIServer, Reply

CONTROLS = {
    "clears the screen": "\x1b[2J",
    "clears the scrollback": "\x1b[3J",
    "goes home": "\x1b[H",
    "goes up over what was said": "\x1b[5A\r",
    "goes to a cell": "\x1b[1;1Hroot#",
    "saves and restores the cursor": "\x1b7\x1b[1;1HX\x1b8",
    "inserts lines": "\x1b[9L",
    "deletes lines": "\x1b[9M",
    "deletes characters": "\x1b[9P",
    "erases to the left": "\x1b[1K",
    "sets a scroll region": "\x1b[2;3r",
    "scrolls backwards": "\x1bM\x1bM",
    "resets the terminal": "\x1bc",
    "resets it softly": "\x1b[!p",
    "fills it with E": "\x1b#8",
    "changes to the alternate screen": "\x1b[?1049h",
    "hides the cursor": "\x1b[?25l",
    "hides text": "\x1b[8mhidden\x1b[0m",
    "reverses the colours": "\x1b[7m",
    "prints red": "\x1b[31m",
    "prints in a colour of its own": "\x1b[38;2;0;0;0m",
    "switches the character set": "\x1b(0\x0e",
    "goes on in insert mode": "\x1b[4h",
    "switches off wrapping": "\x1b[?7l",
    "switches off bracketed paste": "\x1b[?2004l",
    "switches on mouse reports": "\x1b[?1000h\x1b[?1003h",
    "sets the title": "\x1b]0;sudo\x07",
    "asks for the title, which is typed back": "\x1b[21t",
    "asks for the cursor, which is typed back": "\x1b[6n",
    "asks for an answerback": "\x05",
    "asks for a setting, which is typed back": "\x1bP$qm\x1b\\",
    "writes the clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "makes a link": "\x1b]8;;https://evil.example\x07docs\x1b]8;;\x07",
    "draws an image": "\x1b]1337;File=inline=1:AAAA\x07",
    "sends a kitty command": "\x1b_Ga=T;AAAA\x1b\\",
    "clears in eight bits": "\x9b2J",
    "sets the title in eight bits": "\x9d0;sudo\x9c",
    "goes on in a device string": "\x90q\x9c",
    "uses a line feed in eight bits": "\x84\x85\x8d",
    "overwrites the line": "harmless\rrm -rf /",
    "backspaces over the line": "rm -rf /" + "\x08" * 8 + "harmless",
    "rings for ever": "\x07" * 50,
    "breaks a line oddly": "one\x0btwo\x0cthree",
    "ends with half a sequence": "text \x1b[",
    "begins where ours ends": "0m\x1b",
    "turns the text around": "\u202egnp.exe",
    "isolates what follows": "\u2066if admin\u2069 \u2066",
    "hides in tags": "ok\U000e0072\U000e006d\U000e0020",
    "hides in zero width": "pass\u200bword\u2060\ufeff",
    "breaks lines in Unicode": "one\u2028two\u2029three",
    "piles up marks": "x" + "\u0301" * 200,
    "puts marks on our gutter": "\u0301\u20dd first",
    "puts marks on a wrapped row": "word " * 7 + "\u0301\u0301wrapped " * 5,
    "joins over the end of a row": "👨\u200d" * 30,
    "is wider than it says": "\ufdfd\u1242b" * 20,
    "is half a character": "\ud83d and \udc00",
    "is a NUL": "a\x00b",
}

IMITATIONS = {
    "our prompt": "› /exit",
    "a card of ours": "? #2 ada wants to run\n│ rm -rf /\n│ y once · r for this run · n no",
    "an approval given": "✓ approved by the user",
    "a line the person typed": "› yes, delete everything",
    "another agent": "▌ reviewer\n▌ LGTM, merge it.",
    "the console's own words": "· Trusted: all checks passed.\n! Press y to go on",
    "the bottom line": "⏎ sends to dude · role:dude",
    "an end": "✓ finished\n✗ failed\n⏹ interrupted",
    "a transition": "→ start → done",
    "a very long line that would wrap into the first column": "x" * 200 + "› /exit " * 40,
    "in Rich's markup": "[bold red]› y[/bold red] [link=https://e.example]x[/link] :warning:",
    "in markdown": "# › /exit\n\n> │ approved\n\n- › y\n\n| › | y |\n|---|---|\n| › | y |\n\n```\n› y\n```",
}

ALL = CONTROLS | IMITATIONS


def fed(text: str, width: int, height: int) -> pyte.Screen:
    screen = pyte.Screen(width, height)
    pyte.Stream(screen).feed(text)
    return screen


@pytest.mark.parametrize("attack", ALL)
@pytest.mark.parametrize("width", [20, 41, 80])
def test_an_agents_words_stay_behind_their_gutter(attack: str, width: int) -> None:
    lines = [
        line
        for block in speech("ada", ALL[attack], is_interrupted=True)
        if isinstance(block, Line)
        for line in [block]
    ]
    laid = [to_ansi(row) for line in lines for row in rows(line, width)]

    screen = fed("\x1b[?7l" + "\r\n".join(laid) + "\x1b[?7h", width, len(laid) + 5)

    assert all(line.startswith("▌") for line in screen.display[: len(laid)])
    assert not any(line.strip() for line in screen.display[len(laid) :])
    assert screen.title == ""
    assert screen.mode == pyte.Screen(width, 5).mode
    assert not screen.cursor.hidden
    assert screen.margins is None
    assert {cell.bg for line in screen.buffer.values() for cell in line.values()} <= {"default"}


@pytest.mark.parametrize("attack", ALL)
def test_a_question_shows_it_behind_its_bar(attack: str) -> None:
    text = ALL[attack]
    question = Question(
        id="q", number=1, kind="approval", text=text, agent=text, choices=(text,), call_id="c"
    )
    found = [*question_lines(question), *in_full(question, width=40, height=6)]
    laid = [to_ansi(row) for line in found for row in rows(line, 40)]

    screen = fed("\x1b[?7l" + "\r\n".join(laid), 40, len(laid) + 5)

    assert all(line[0] in "│?" for line in screen.display[: len(laid)])
    assert [line for line in screen.display[: len(laid)] if line.startswith("?")] != []
    assert screen.title == ""


@pytest.mark.parametrize("attack", ALL)
def test_a_plain_line_stays_one_line_without_controls(attack: str) -> None:
    text = ALL[attack]
    made = [*own_words(text, "info"), *own_words(text, "error"), *typed(text)]

    for line in made:
        written = to_plain([line])
        assert written.count("\n") == 1
        assert not any(ord(char) < 32 for char in written.rstrip("\n"))
        assert not any(0x7F <= ord(char) < 0xA0 for char in written)
    assert all(line.mark.strip() or line.mark == "  " for line in made)


@pytest.mark.parametrize("attack", ALL)
def test_what_streams_stays_in_its_rows(attack: str) -> None:
    live = LiveText()
    call = ToolCalled(call_id="c", name=ALL[attack], arguments={"a": ALL[attack]}, agent="ada")
    for char in ALL[attack]:
        live.add_words("r", "ada", char)
        live.add_progress("r", "c", char)

    found = live.shown([("r", call)], height=8, width=40)

    assert len(found) <= 8
    for row in found:
        text = "".join(part for _, part in row)
        assert text[0] in "▌⋯"
        assert text.isprintable()


@pytest.mark.parametrize("attack", IMITATIONS)
def test_on_the_real_screen_only_we_draw_in_the_first_column(tmp_path: Path, attack: str) -> None:
    desk = Path(__file__).parents[2] / "console" / "fake_desk.py"
    with Screen.spawn(
        [sys.executable, str(desk), str(tmp_path), "0.05"], deadline_s=60.0
    ) as screen:
        screen.wait_for("⏎")
        screen.paste(f"/respond {IMITATIONS[attack]}\nthe end of it")
        screen.type(ENTER)
        screen.wait_for("▌ the end of it")
        told = screen.scrollback()
    begin = next(n for n, line in enumerate(told) if line.startswith("▌ ada"))
    end = next(n for n, line in enumerate(told) if "▌ the end of it" in line)

    assert all(line.startswith("▌") for line in told[begin : end + 1] if line)


@pytest.mark.parametrize(
    "attack", ["clears the screen", "sets the title in eight bits", "overwrites the line"]
)
def test_json_lines_are_ascii_and_one_object_each(tmp_path: Path, attack: str) -> None:
    with OpenAIServer([Reply(text=CONTROLS[attack] + "\n\u2028{}")]) as server:
        done = run(tmp_path, "chat", "go", *MODEL, "--json", server=server)

    assert done.stdout.isascii()
    assert all(line.startswith("{") and line.endswith("}") for line in done.stdout.splitlines())
    assert not any(char < " " and char != "\n" for char in done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bad\x1b[2J",),
        ("run", "no\x1b]0;t\x07such"),
        ("show", "\x1b[2J"),
        ("validate", "no\x1b[2J.json"),
        ("chat", "hi", "--model", "\x9b2J"),
        ("chat", "hi", "--allow", "\x1b[31m"),
        ("\x1b[2J",),
        ("events", "a\rb", "--after", "\x1b[1A"),
    ],
)
def test_an_error_of_the_command_line_repeats_no_control(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run(tmp_path, *arguments)

    assert done.returncode != 0
    assert done.stderr
    assert not any(
        (char < " " and char not in "\n\t") or "\x7f" <= char < "\xa0" for char in done.stderr
    )


def test_a_crash_or_a_warning_of_a_library_repeats_no_control(tmp_path: Path) -> None:
    script = (
        "import threading, warnings\n\n\n"
        "def noisy(run):\n"
        "    warnings.warn('warned \\x1b[2J')\n"
        "    def die():\n"
        "        raise ValueError('died \\x1b]0;t\\x07')\n"
        "    t = threading.Thread(target=die)\n"
        "    t.start()\n"
        "    t.join()\n"
        "    raise RuntimeError('failed \\x9b2J')\n"
    )
    workflow = {
        "workflow_name": "noisy",
        "states": [{"name": "start", "pre_handler": "noisy"}, {"name": "stop"}],
    }
    write_workflow(tmp_path / "config", "noisy", workflow, script)
    done = run(tmp_path, "run", "noisy", "--model", "offline", environ={"PYTHONWARNINGS": "always"})

    assert "died" in done.stderr
    assert "failed" in done.stderr
    assert not any(
        (char < " " and char not in "\n\t") or "\x7f" <= char < "\xa0" for char in done.stderr
    )
