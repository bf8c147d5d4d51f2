"""Foreign text tries to move, clear, colour, rename or imitate: it only ever stands there as text."""

import json
import subprocess
import sys
from pathlib import Path

import pyte
from console_kit import MIDSTREAM, environment, run, write_workflow
from deadline import DEADLINE_S
from hypothesis import given, settings
from hypothesis import strategies as st
from pipes_kit import MODEL
from screen import ENTER, Screen
from support.openai_server import OpenAIServer, Reply
from tables import table
from wcwidth import wcwidth

from midstream.core.events import ToolCalled
from midstream.core.notices import TextDelta
from midstream.core.question import Question
from midstream.tui.event_lines import own_words, plain_words, question_lines, speech, typed
from midstream.tui.frame_rows import in_full
from midstream.tui.live_region import LiveText
from midstream.tui.markdown import rendered
from midstream.tui.styled_lines import Line, broken_there, is_wider, rows, to_ansi, to_plain

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
    "puts marks on our first column": "\u0301\u20dd first",
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
    "the bottom line": "chat with dude · role:dude",
    "an end": "✓ finished\n✗ failed\n⏹ interrupted",
    "a transition": "→ start → done",
    "something that looks like an end": "✔ finished\n✘ failed\n√ checked\n❯ /exit\n❱ /exit\n◼ stopped",
    "something that looks like a speaker": "▍ reviewer\n▐ reviewer\n│ reviewer\n┃ reviewer\n▏ reviewer",
    "letters that look like our marks": "ǃ Press y\nʔ #2 ada asks\nᐅ go\nᐳ /exit\nꓽ so\nㆍ so",
    "a mark behind blanks nobody sees": "\u200b› /exit\n\u00a0› /exit\n\u2800› /exit\n\t› /exit",
    "a mark after a return": "harmless\r› /exit\r\n› /exit\x0b› /exit\x85› /exit\u2028› /exit",
    "a mark under combining marks": "\u0301› /exit\n›\u0338 /exit\n!\u0301 Press y",
    "a mark wherever a row may begin": "› " * 200,
    "a mark behind each length": "\n".join(f"{'x' * n}› /exit" for n in range(90)),
    "a warning in code": "```\n"
    + "\n".join(f"{'x' * n}! Press y ? z" for n in range(90))
    + "\n```",
    "a mark at the end of a line that runs from right to left": "שלום ›\n\u05d0 ✓ \u05d0\nمرحبا ▌ ada",
    "a mark in code": "```py\n› /exit\n! y\n"
    + "x" * 300
    + "› y\n```\n1. a\n   ```\n   ✓ y\n   ```",
    "a very long line that would wrap into the first column": "x" * 200 + "› /exit " * 40,
    "in Rich's markup": "[bold red]› y[/bold red] [link=https://e.example]x[/link] :warning:",
    "in markdown": "# › /exit\n\n> │ approved\n\n- › y\n\n| › | y |\n|---|---|\n| › | y |\n\n```\n› y\n```",
}

ALL = CONTROLS | IMITATIONS


def fed(text: str, width: int, height: int) -> pyte.Screen:
    screen = pyte.Screen(width, height)
    pyte.Stream(screen).feed(text)
    return screen


MARKS = "›▌→✓✗■·⏹┆┊│▶⋯⏳⏎▸↶"
"""What our own lines begin with, beside `! ` and `? `."""

PIECES = [*MARKS, *"!? xy`>-#\n\t\r\x1b\u0301中ש✔👍", "word ", "```\n"]


def is_ours(shown: str) -> bool:
    """Return whether a row on a screen could be one of ours."""
    after = shown[1:2]
    return shown[0] in MARKS or (shown[0] in "!?" and (not after.strip() or wcwidth(after) == 0))


def laid(text: str, width: int, *, is_rendered: bool, is_interrupted: bool = False) -> list[str]:
    """Return the rows of a reply, as they are written to a terminal."""
    lines: list[Line] = []
    for block in speech("ada", text, is_interrupted=is_interrupted):
        if isinstance(block, Line):
            lines.append(block)
        else:
            lines += rendered(text, width=width) if is_rendered else plain_words(block)
    return [
        broken_there(to_ansi(row)) if line.is_code and is_wider(row, width) else to_ansi(row)
        for line in lines
        for row in rows(line, width)
    ]


@table("is_rendered", [False, True])
@table("attack", ALL)
@table("width", [20, 41, 80])
def test_an_agents_words_never_begin_like_one_of_our_lines(
    attack: str, width: int, is_rendered: bool
) -> None:
    found = laid(ALL[attack], width, is_rendered=is_rendered, is_interrupted=True)
    height = sum(2 + len(row) // width for row in found)

    screen = fed("\x1b[?7l" + "\r\n".join(found) + "\x1b[?7h", width, height)

    shown = [line for line in screen.display if line.strip()]
    assert [line.strip() for line in (shown[0], shown[-1])] == ["▌ ada", "▌ [interrupted]"]
    assert not [line for line in shown[1:-1] if is_ours(line)]
    assert screen.title == ""
    assert screen.mode == pyte.Screen(width, 5).mode
    assert not screen.cursor.hidden
    assert screen.margins is None
    assert {cell.bg for line in screen.buffer.values() for cell in line.values()} <= {"default"}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=120).map("".join),
    st.integers(min_value=8, max_value=40),
    st.integers(min_value=4, max_value=60),
    st.booleans(),
)
def test_no_text_draws_a_row_that_begins_like_ours_at_any_width(
    text: str, width: int, later: int, is_rendered: bool
) -> None:
    found = laid(text, width, is_rendered=is_rendered)

    screen = fed("\x1b[?7l" + "\r\n".join(found[1:]) + "\x1b[?7h", width, 300)
    assert not [line for line in screen.display if is_ours(line)]

    # A row that the terminal breaks may be broken anew by it, at another width.
    wide = [row for row in found[1:] if "\x1b[?7h" in row]
    again = fed("\r\n".join(wide), later, 600)
    assert not [line for line in again.display if is_ours(line)]


@table("attack", ALL)
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


@table("attack", ALL)
def test_a_plain_line_stays_one_line_without_controls(attack: str) -> None:
    text = ALL[attack]
    made = [*own_words(text, "info"), *own_words(text, "error"), *typed(text)]

    for line in made:
        written = to_plain([line])
        assert written.count("\n") == 1
        assert not any(ord(char) < 32 for char in written.rstrip("\n"))
        assert not any(0x7F <= ord(char) < 0xA0 for char in written)
    assert all(line.mark.strip() or line.mark == "  " for line in made)


@table("attack", ALL)
def test_what_streams_stays_in_its_rows(attack: str) -> None:
    live = LiveText()
    call = ToolCalled(call_id="c", name=ALL[attack], arguments={"a": ALL[attack]}, agent="ada")
    for char in ALL[attack]:
        live.hears("r", TextDelta(agent="ada", text=char))
        live.outputs.add("r", "c", char)

    found = live.shown([("r", call)], height=8, width=40)

    assert len(found) <= 8
    for row in found:
        text = "".join(part for _, part in row)
        assert text.replace("\xa0", " ").isprintable()
    heads = ["".join(part for _, part in row) for row in found]
    assert heads[0] == "▌ ada"
    assert heads[-1].startswith("⋯")
    assert not [head for head in heads[1:-1] if head and is_ours(head)]


@table("attack", IMITATIONS)
def test_on_the_real_screen_only_we_draw_in_the_first_column(tmp_path: Path, attack: str) -> None:
    session = Path(__file__).parents[2] / "tui" / "fake_session.py"
    with Screen.spawn([sys.executable, str(session), str(tmp_path), "0.05"]) as screen:
        screen.wait_for("chat ")
        screen.paste(f"/respond {IMITATIONS[attack]}\nthe end of it")
        screen.type(ENTER)
        screen.wait_until(lambda s: "the end of it" in s.scrollback())
        told = screen.scrollback()
    begin = next(n for n, line in enumerate(told) if line.startswith("▌ ada"))
    end = next(n for n, line in enumerate(told) if n > begin and line == "the end of it")

    assert not [line for line in told[begin + 1 : end] if line and is_ours(line)]


@table("attack", ["clears the screen", "sets the title in eight bits", "overwrites the line"])
def test_json_lines_are_ascii_and_one_object_each(tmp_path: Path, attack: str) -> None:
    with OpenAIServer([Reply(text=CONTROLS[attack] + "\n\u2028{}")]) as server:
        done = run(tmp_path, "chat", "go", *MODEL, "--json", server=server)

    assert done.stdout.isascii()
    assert all(line.startswith("{") and line.endswith("}") for line in done.stdout.splitlines())
    assert not any(char < " " and char != "\n" for char in done.stdout)


@table(
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


FOREIGN = "EVIL\x1b]52;c;eA==\x07\x1b]0;t\x07\x9b2J\x9d0;t\x9c\u202egnp\u2066\U000e0041\x7f\x08 end"
OBEYED = {*map(chr, (*range(9), *range(11, 32), *range(127, 160)))} | {*"\u202e\u2066\U000e0041"}


EVERY_COMMAND: dict[str, tuple[str, ...]] = {
    # what foreign text it prints: the command
    "the descriptions of workflows": ("workflows",),
    "the descriptions of roles": ("roles",),
    "problems of a file": ("validate", "evil"),
    "a file's name": ("validate", f"{FOREIGN}.json"),
    "what a workflow does": ("explain", "evil"),
    "its graph": ("graph", "evil"),
    "its graph for Mermaid": ("graph", "evil", "--format", "mermaid"),
    "its graph for Graphviz": ("graph", "evil", "--format", "dot"),
    "its graph as a picture": ("graph", "evil", "--format", "svg"),
    "a folder's name, to be trusted": ("trust", "--workspace", FOREIGN),
    "a folder's name, in a fault": ("doctor",),
    "a setting": ("config", "list"),
    "one setting": ("config", "get", "currentMode"),
    "servers": ("mcp", "list"),
    "the folders of runs": ("runs", "--all"),
    "a run": ("show", "RUN"),
    "its events": ("events", "RUN"),
    "a run that cannot go back": ("undo", FOREIGN),
    "a run that cannot be copied": ("fork", FOREIGN),
    "a run that is not there": ("replay", FOREIGN),
    "a file that is none": ("import", f"{FOREIGN}.jsonl"),
    "a rehearsal that is none": ("rehearse", f"{FOREIGN}.rehearsal"),
    "a workflow that is none": ("run", FOREIGN),
    "a role that is none": ("chat", "--role", FOREIGN, "hi"),
}


def test_into_a_pipe_no_command_prints_what_a_terminal_obeys(tmp_path: Path) -> None:
    workspace = tmp_path / FOREIGN
    workspace.mkdir()
    flow = {
        "workflow_name": "evil",
        "description": FOREIGN,
        "agents": [{"agent_role": "dude", "context": "c"}],
        "contexts": [{"name": "c"}],
        "states": [
            {"name": "start", "agent": "dude", "next": FOREIGN},
            {"name": f"x{FOREIGN}", "prompt": FOREIGN},
        ],
    }
    write_workflow(tmp_path / "config", "evil", flow)
    (tmp_path / "config" / "roles").mkdir()
    roles = {"evil": {"description": FOREIGN, "systemMessage": FOREIGN}}
    (tmp_path / "config" / "roles" / "evil.json").write_text(json.dumps(roles))
    servers = {FOREIGN: {"command": FOREIGN, "args": [FOREIGN]}}
    own = {"currentMode": f"role:{FOREIGN}", "mcpServers": servers}
    (tmp_path / "config" / "application.json").write_text(json.dumps(own))

    def told(*arguments: str) -> str:
        done = subprocess.run(
            [*MIDSTREAM, *arguments],
            cwd=workspace,
            env=environment(tmp_path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return (done.stdout + done.stderr).decode()

    facts = told("chat", FOREIGN, "--role", "dude", "--model", "offline", "--json").splitlines()
    run_id = next(fact["run"] for fact in map(json.loads, facts) if "run" in fact)
    write_workflow(workspace / FOREIGN / ".midstream", "evil", flow)
    wrong = {}
    for what, arguments in EVERY_COMMAND.items():
        text = told(*(run_id if word == "RUN" else word for word in arguments))
        if "EVIL" not in text or {*text} & OBEYED:
            wrong[what] = text[:2000]

    assert not wrong


def test_what_a_program_reads_is_exact_in_a_pipe(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="a\u202eb\x9b\x1b[2J")]) as server:
        done = run(tmp_path, "chat", "go", *MODEL, server=server)

    assert done.stdout == "a\u202eb\x9b\x1b[2J\n"


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
