"""Parallel branches in the real program: two that stream, one that asks, one that runs a tool."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from console_kit import DEADLINE_S, MIDSTREAM, console, environment, json_lines, run, write_workflow
from screen import ESC, Screen
from support.openai_server import Body, Call, Gate, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
ASK = Call(
    name="request_users_input", arguments={"question": "Which files?", "choices": ["src", "tests"]}
)
REVIEW: dict[str, Any] = {
    "workflow_name": "review",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {
            "name": "start",
            "parallel": ["layers", "names", "spots", "tests"],
            "save_as": "found",
            "next": "sum",
        },
        {"name": "layers", "agent": "dude", "prompt": "Look at layers."},
        {"name": "names", "agent": "dude", "prompt": "Look at names."},
        {"name": "spots", "agent": "dude", "prompt": "Look at spots."},
        {
            "name": "tests",
            "tool": "execute_terminal",
            "arguments": {"command": "echo 12 passed; test -e go || exit 2"},
            "retry": {"max_attempts": 2, "backoff_s": 0, "on": ["tool"]},
            "catch": [{"to": "red"}],
        },
        {"name": "red"},
        {"name": "sum", "agent": "dude", "prompt": "Sum up.", "save_as": "out"},
        {"name": "resume", "agent": "dude", "prompt": "Hear them.", "next": "$interrupted"},
        {"name": "stop", "input": "common_data.out"},
    ],
}


class Brain:
    """A model that speaks by what it is asked to look at; `layers` and `names` wait for a gate."""

    def __init__(self) -> None:
        self.gates = {"layers": Gate(), "names": Gate()}
        self.heard: list[str] = []

    def __call__(self, body: Body) -> Reply:
        """Return what is said next."""
        messages = body["messages"]
        last = messages[-1]
        texts = " ".join(str(message["content"]) for message in messages)
        self.heard.append(texts)
        if last["role"] == "tool":
            return Reply(text="Two hot spots.")
        for name, gate in self.gates.items():
            if f"Look at {name}." in texts:
                return Reply(chunks=(f"{name} one, ", f"{name} two."), gate=gate)
        if "Look at spots." in texts:
            return Reply(calls=(ASK,))
        return Reply(text="All is well." if "Sum up." in texts else "I hear you.")

    def open(self) -> None:
        """Let everybody speak to the end."""
        for gate in self.gates.values():
            gate.open()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home whose user has the workflow."""
    write_workflow(tmp_path / "config", "review", REVIEW)
    return tmp_path


def open_console(home: Path, server: OpenAIServer, cols: int = 80, rows: int = 24) -> Screen:
    """Start the console at the workflow."""
    options = (
        "--mode",
        "workflow:review",
        "--allow",
        "execute_terminal",
        "--allow",
        "outside: *",
        *MODEL,
    )
    return console(home, *options, server=server, cols=cols, rows=rows)


def wait_for_row(screen: Screen, *parts: str) -> None:
    """Read until a row on the screen holds all of these."""
    screen.wait_until(
        lambda s: any(all(part in line for part in parts) for line in s.lines()),
        what=f"a row with {parts}",
    )


def test_one_branch_streams_and_the_others_have_a_line_each(home: Path) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 20) as server, open_console(home, server) as screen:
        wait_for_row(screen, "▸ #1 spots ▌ dude asks")
        screen.wait_for("✓ tests ▌ finished")
        screen.wait_until(lambda s: s.text().count("dude is writing") == 2, what="both write")
        wait_for_row(screen, "⋯ layers ▌ dude is writing · ")
        wait_for_row(screen, "? spots ▌ waits for #1")
        shown = screen.text()
        assert "▶ layers, names, spots, tests  begin" in shown
        assert "· tests ▌ tests: again at once (2 of 2)" in shown
        assert ("layers one," in shown) != ("names one," in shown), shown
        assert "a line answers #1 · Tab queues · workflow:review · asks" in shown

        screen.type("@nam")
        screen.type("\t")
        screen.type(" shorter")
        wait_for_row(screen, "interrupts names")
        screen.type("\r")
        screen.wait_for("⏹ names ▌ interrupted · dude cut off")
        assert "▸ #1 spots ▌ dude asks" in screen.text(), "the question is still open"
        assert "⏹ layers" not in screen.text()

        screen.rest(FRESH_S * 2)
        screen.type("1\r")
        screen.wait_for("✓ spots ▌ #1 Which files?  src")
        screen.wait_for("Two hot spots.")
        brain.open()
        screen.wait_for("✓ start  4 branches joined")
        screen.wait_for("All is well.")
        told = screen.scrollback()
        assert "▌ names ▌ dude" in told
        assert "names one, names two." in told
        assert "layers one, layers two." in told
        assert not any("layers" in line and "names one" in line for line in told)


@pytest.mark.parametrize(("cols", "rows"), [(40, 20), (200, 30)])
def test_words_halt_all_branches_and_all_go_on(home: Path, cols: int, rows: int) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 20) as server, open_console(home, server, cols, rows) as screen:
        screen.wait_for("✓ tests ▌ finished")
        wait_for_row(screen, "#1 spots ▌ dude asks")
        screen.wait_until(lambda s: s.text().count("dude is writing") == 2, what="both write")
        assert max(map(len, screen.lines())) <= cols

        screen.type("/interrupt faster please\r")
        screen.wait_for("⏹ interrupted")
        told = " ".join(" ".join(screen.scrollback()).split())
        assert "⏹ interrupted · layers, names, spots: dude cut off" in told
        assert "spots ▌ #1 Which files? closed unanswered: interrupted" in told
        screen.wait_for("▶ layers, names, spots  go on")
        brain.open()
        screen.wait_for("All is well.")
        assert [words for words in brain.heard if "faster please" in words]


def test_esc_holds_all_branches_and_the_next_words_let_them_go_on(home: Path) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 20) as server, open_console(home, server) as screen:
        wait_for_row(screen, "#1 spots ▌ dude asks")
        screen.wait_for("✓ tests ▌ finished")
        wait_for_row(screen, "dude is writing")
        screen.type(ESC)
        screen.wait_for("waiting for your words")
        wait_for_row(screen, "⏎ resumes")
        assert "dude is writing" not in screen.text()
        assert "@name" not in screen.text()
        screen.type("go on\r")
        screen.wait_for("▶ layers, names, spots  go on")
        assert screen.text().count("⏹") == 1


def test_what_is_at_work_can_be_looked_up(home: Path) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 20) as server, open_console(home, server, 100, 40) as screen:
        wait_for_row(screen, "#1 spots ▌ dude asks")
        screen.wait_for("✓ tests ▌ finished")
        screen.type("/state\r")
        screen.wait_for("└ contexts")
        told = [line.strip(" │├└") for line in screen.scrollback()]
        assert "▸ start  layers, names at work; waiting for your answer to #1" in told
        assert "▌ layers  dude is thinking" in told
        assert "▌ spots  dude is waiting for your answer to #1" in told
        assert "#1 spots ▌ dude  Which files?" in told
        screen.type("/graph\r")
        screen.wait_for("spots")


def test_no_colour_is_used_where_none_is_wanted(home: Path) -> None:
    brain = Brain()
    brain.open()
    argv = [*MIDSTREAM, "--workspace", str(home), "--mode", "workflow:review"]
    with OpenAIServer([brain] * 20) as server:
        env = environment(home, server) | {"NO_COLOR": "1"}
        options = [*MODEL, "--allow", "execute_terminal", "--allow", "outside: *"]
        with Screen.spawn([*argv, *options], env=env, deadline_s=DEADLINE_S) as screen:
            wait_for_row(screen, "#1 spots ▌ dude asks")
            screen.rest(FRESH_S * 2)
            screen.type("1\r")
            screen.wait_for("4 branches joined")
            styles = re.findall(rb"\x1b\[([0-9;]*)m", bytes(screen.raw))
            assert not any(re.search(rb"\b[349][0-7]\b", style) for style in styles), styles


# --- without a terminal -----------------------------------------------------------------------


def headless(home: Path, *options: str) -> tuple[int, str, str]:
    """Run the workflow on pipes; return its exit code, stdout and stderr."""
    brain = Brain()
    brain.open()
    with OpenAIServer([brain] * 20) as server:
        ended = run(
            home,
            "run",
            "review",
            *MODEL,
            "--allow",
            "execute_terminal",
            "--allow",
            "outside: *",
            *options,
            server=server,
        )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_headless_run_tells_of_its_branches_on_stderr(home: Path) -> None:
    code, out, err = headless(home, "--answer", "src")

    assert (code, out) == (0, "All is well.\n")
    told = err.splitlines()
    assert "▶ layers, names, spots, tests  begin" in told
    assert "? #1 spots ▌ dude asks" in told
    assert "✓ spots ▌ #1 Which files?  src" in told
    for name in ("layers", "names"):
        assert told[told.index(f"▌ {name} ▌ dude") + 1] == f"{name} one, {name} two."
    assert "✓ start  4 branches joined" in told


def test_every_event_of_a_branch_says_which(home: Path) -> None:
    _, out, _ = headless(home, "--answer", "src", "--json")

    events = json_lines(out)
    words: dict[str, str] = {}
    for event in events:
        if event["type"] == "text_delta":
            words[event.get("branch", "")] = words.get(event.get("branch", ""), "") + event["text"]
    assert words["layers"] == "layers one, layers two."
    assert words["names"] == "names one, names two."
    assert words[""] == "All is well."
    asked = next(event for event in events if event["type"] == "question_asked")
    assert (asked["branch"], asked["question_id"]) == ("spots", "spots/q1")
    failed = [event for event in events if event["type"] == "state_failed"]
    assert [(each["branch"], each["then"]) for each in failed] == [
        ("tests", "retry"),
        ("tests", "catch"),
    ]


def test_a_run_left_with_a_question_in_a_branch_is_shown_and_answered_from_outside(
    home: Path,
) -> None:
    code, _, err = headless(home)
    assert code == 4
    assert "waits for an answer that was not given in the branch spots: Which files?" in err
    id = err.split("started, run ")[1].split()[0]

    shown = run(home, "show", id).stdout
    assert "branch     spots [spots]: waits for #1" in shown
    assert "asks       #1 spots/q1: Which files? (1 src, 2 tests)" in shown
    found = json.loads(run(home, "show", id, "--json").stdout)
    assert [(each["branch"], each["is_parked"]) for each in found["branches"]] == [("spots", True)]
    assert found["questions"][0]["branch"] == "spots"
    assert found["state"] == "start"

    sent = run(home, "send", id, "@spots and be quick").stdout
    assert "your line" in sent
    brain = Brain()
    with OpenAIServer([brain] * 20) as server:
        ended = run(home, "resume", id, *MODEL, "--answer", "src", server=server)
    assert ended.returncode == 0, ended.stderr
    assert any("and be quick" in words for words in brain.heard)
