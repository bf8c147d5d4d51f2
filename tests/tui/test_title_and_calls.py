"""The terminal's title, and what calls a person back who looks elsewhere."""

import re
import sys
from pathlib import Path

import pytest
from screen import Screen

from midstream.app.ui import Status
from midstream.config.settings import Notifications
from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.language.plan import chat_definition
from midstream.language.spec import Role, State, Workflow
from midstream.tui.desktop import Calls, Title, folder_name, title_of

BUSY = Status(mode="workflow:review", enter="", state="look", busy=True)
ASKED = e.QuestionAsked(question_id="q1", number=1, kind="question", text="Which?", agent="ada")
CHAT = e.RunStarted(workflow="role:dude", definition=chat_definition("dude", Role(), {}))
ANSWERED = e.AgentResponded(agent="dude", text="Done.")


def heard(
    *facts: e.AnyFact,
    how: Notifications = "bell",
    idle_s: float = 60.0,
    environ: dict[str, str] | None = None,
) -> list[str]:
    calls = Calls(how, environ or {})
    return [
        calls.on_event(Envelope(run="r", at=0.0, event=fact, seq=n), now=n * 60.0, idle_s=idle_s)
        for n, fact in enumerate(facts, 1)
    ]


# --- the title ----------------------------------------------------------------------------------


def test_the_title_says_where_we_are_and_what_needs_a_person_first() -> None:
    asking = Question(id="q", number=2, kind="question", text="?")

    assert title_of(BUSY, [], folder="shop") == "● review [look] · shop · midstream"
    assert title_of(BUSY, [asking], folder="shop").startswith("? #2 review")
    idle = Status(mode="role:dude", enter="")
    assert title_of(idle, [], folder="shop") == "dude · shop · midstream"


def test_the_title_before_is_kept_and_comes_back() -> None:
    title = Title("xterm-256color")

    assert title.show("one") == "\x1b[22;2t\x1b]2;one\x07"
    assert title.show("one") == ""
    assert title.show("two") == "\x1b]2;two\x07"
    assert title.restore() == "\x1b]2;\x07\x1b[23;2t"
    assert title.restore() == ""


@pytest.mark.parametrize("term", [None, "", "dumb", "linux", "eterm-color", "vt100", "unknown"])
def test_terminals_without_a_title_get_none(term: str | None) -> None:
    title = Title(term)

    assert title.show("one") == title.restore() == ""


def test_a_hostile_name_ends_no_sequence_and_begins_none() -> None:
    sequence = Title("xterm").show("a\x07\x1b]0;b\x9c\x1b\\\n\u202ec" + "x" * 500)

    body = sequence.removeprefix("\x1b[22;2t\x1b]2;").removesuffix("\x07")
    assert all(ord(char) >= 0x20 and not 0x7F <= ord(char) < 0xA0 for char in body)
    assert "\u202e" not in body
    assert len(body) <= 80


def test_a_folder_is_called_by_its_name(tmp_path: Path) -> None:
    assert folder_name(tmp_path / "shop") == "shop"
    assert folder_name(Path("/")) == "/"


# --- calls --------------------------------------------------------------------------------------


def test_a_question_and_the_end_of_a_run_ring() -> None:
    assert heard(ASKED, e.RunFinished(), e.RunFailed(error="no")) == ["\x07"] * 3


def test_a_person_who_types_is_not_called() -> None:
    assert heard(ASKED, e.RunFinished(), idle_s=2.0) == ["", ""]


def test_nobody_is_called_unless_asked_for() -> None:
    assert heard(ASKED, e.RunFinished(), how="off") == ["", ""]


def test_what_needs_nobody_is_silent() -> None:
    called = e.ToolCalled(call_id="c", name="look", arguments={}, agent="ada")
    words = e.QuestionAsked(question_id="q", number=0, kind="input", text="")

    assert (
        heard(called, words, e.AgentResponded(agent="ada", text="hm", is_final=False)) == [""] * 3
    )


def test_a_chat_that_has_answered_calls_and_its_end_does_not() -> None:
    assert heard(CHAT, ANSWERED, e.RunFinished()) == ["", "\x07", ""]
    workflow = Workflow(workflow_name="w", states=(State(name="start"),))
    begun = e.RunStarted(
        workflow="w",
        definition=chat_definition("x", Role(), {}).__class__(workflow=workflow, roles={}),
    )
    assert heard(begun, ANSWERED) == ["", ""]


def test_one_call_does_for_what_comes_together() -> None:
    calls = Calls("bell", {})
    told = [
        calls.on_event(Envelope(run="r", at=0.0, event=ASKED), now=now, idle_s=60.0)
        for now in (100.0, 101.0, 106.0)
    ]

    assert told == ["\x07", "", "\x07"]


def test_a_notification_of_the_desktop_says_what_it_is_about() -> None:
    assert heard(ASKED, how="desktop") == ["\x1b]9;midstream: ada asks: Which?\x07"]


def test_a_notification_holds_no_control_and_begins_with_our_name() -> None:
    hostile = e.QuestionAsked(
        question_id="q", number=1, kind="question", text="4;1;99\x07\x1b]52;c;x"
    )
    (call,) = heard(hostile, how="desktop")

    assert call.startswith("\x1b]9;midstream: ")
    assert call.count("\x1b") == 1
    assert call.count("\x07") == 1


@pytest.mark.parametrize(("env", "rings"), [({"BELL": "1"}, 1), ({}, 0)])
def test_the_terminal_rings_for_a_question(env: dict[str, str], rings: int) -> None:
    program = [sys.executable, str(Path(__file__).with_name("fake_session.py")), "", "0"]
    with Screen.spawn(program, env) as screen:
        screen.wait_for("chat ")
        screen.type("/ask\r")
        screen.wait_for("Which colour?")
        screen.settle()
        titles = re.compile(rb"\x1b\]2;[^\x07]*\x07")
        assert titles.sub(b"", bytes(screen.raw)).count(b"\x07") == rings


def test_in_tmux_a_notification_is_wrapped_and_the_window_marked() -> None:
    (call,) = heard(e.RunFinished(), how="desktop", environ={"TMUX": "x"})

    assert call == "\x1bPtmux;\x1b\x1b]9;midstream: finished\x07\x1b\\\x07"


def test_in_screen_a_notification_is_handed_to_the_terminal_without_words_for_tmux() -> None:
    (call,) = heard(e.RunFinished(), how="desktop", environ={"TERM": "screen.xterm-256color"})

    assert call == "\x1bP\x1b]9;midstream: finished\x07\x1b\\\x07"
