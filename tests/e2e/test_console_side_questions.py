"""A question beside a chat that is at work, in the real program: it goes on, and hears nothing."""

import asyncio
from pathlib import Path
from typing import Any, cast

from console_kit import console
from screen import CTRL_D, ESC
from support.openai_server import Body, Call, Fault, Gate, OpenAIServer, Reply

from midstream.app.side_questions import SideQuestions
from midstream.app.switching import Switching

MODEL = ("--model", "openai:gpt-4o-mini")


class Brain:
    """A model whose story waits for a gate, and that answers a side question at once."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.heard: list[list[str]] = []

    def __call__(self, body: Body) -> Reply:
        """Return what is said next."""
        messages: list[dict[str, Any]] = body["messages"]
        self.heard.append([str(message["content"]) for message in messages[1:]])
        if "beside the conversation" in self.heard[-1][-1]:
            return Reply(text="It is **Ada**.")
        if len(self.heard) == 1:
            return Reply(chunks=("Once upon ", "a time."), gate=self.gate, gate_after=1)
        return Reply(text="I see.")


def test_a_side_question_interrupts_nothing_and_is_taken_over_by_a_person(tmp_path: Path) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 9) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("/btw who?\r")
        screen.wait_for("Say it as a line of its own.")
        screen.type("\x15a story\r")
        screen.wait_for("Once upon")
        screen.type("/btw who is it about?\r")
        screen.wait_for("dude is asked beside the conversation.")
        screen.wait_for("It is **Ada**.")
        screen.wait_for("The conversation has not heard of this (<$0.0001)")
        assert brain.heard[1][0] == "a story", "all that was said is known there"
        assert "who is it about?" in brain.heard[1][-1]
        assert "interrupted" not in screen.text()
        screen.type("/cost\r")
        screen.wait_for("And 1 question beside them (/btw): <$0.0001.")
        brain.gate.open()
        screen.wait_for("Once upon a time.")

        screen.type("go on\r")
        screen.wait_for("I see.")
        assert brain.heard[2] == ["a story", "Once upon a time.", "go on"]
        screen.type("/btw\r")
        screen.wait_for("› I asked beside this: who is it about?")
        screen.type("\r")
        screen.wait_until(lambda s: s.text().count("I see.") == 2, what="another reply")
        assert brain.heard[3][-1] == (
            "I asked beside this: who is it about?\nThe answer was: It is **Ada**."
        )
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_side_question_whose_answer_is_lost_was_paid_for_all_the_same(tmp_path: Path) -> None:
    steps: list[Reply | Fault] = [Reply(text="Hello."), Fault(how="cut_mid", text="It is")]
    with OpenAIServer(steps) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.type("/btw who?\r")
        screen.wait_for("was cut off")
        screen.type("\x15/cost\r")
        screen.wait_for("And 1 question beside them (/btw): ~")


def test_esc_stops_the_turn_first_and_then_withdraws_the_question(tmp_path: Path) -> None:
    story, answer = Gate(), Gate()
    steps = [
        Reply(text="Hello."),
        Reply(chunks=("It is ", "Ada."), gate=answer, gate_after=1),
        Reply(chunks=("Once upon ", "a time."), gate=story, gate_after=1),
    ]
    with OpenAIServer(steps) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.type("/btw who?\r")
        screen.wait_for("Esc withdraws /btw")
        screen.type("a story\r")
        screen.wait_for("Once upon")
        screen.wait_gone("Esc withdraws /btw")
        screen.type(ESC)
        screen.wait_for("Esc withdraws /btw")
        screen.wait_for("⏹ interrupted")
        assert "is withdrawn" not in screen.text()
        screen.type(ESC)
        screen.wait_for("The question beside the conversation is withdrawn (~")
        screen.wait_gone("Esc withdraws /btw")
        screen.type("/stop\r")
        screen.wait_for("Nothing is running.")
        screen.type("\x15/cost\r")
        screen.wait_for("And 1 question beside them (/btw): ~")
        answer.open()
        story.open()


def test_who_stops_twice_at_once_withdraws_two_questions_the_newest_first() -> None:
    questions = SideQuestions(cast("Switching", None))
    first, second = asyncio.Event(), asyncio.Event()
    questions._stops = [first, second]

    assert questions.stop()
    assert (first.is_set(), second.is_set()) == (False, True)
    assert questions.is_asking
    assert questions.stop()
    assert first.is_set()
    assert not questions.is_asking
    assert not questions.stop()


def test_each_esc_withdraws_another_question(tmp_path: Path) -> None:
    gates = [Gate(), Gate()]
    steps = [
        Reply(text="Hello."),
        *(Reply(chunks=("It is ", "Ada."), gate=gate, gate_after=1) for gate in gates),
    ]
    with OpenAIServer(steps) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.type("/btw who?\r")
        screen.wait_for("Esc withdraws /btw")
        screen.type("/btw what?\r")
        screen.wait_until(lambda s: s.text().count("is asked beside") == 2, what="two questions")
        screen.wait_for("Esc withdraws /btw")
        screen.type(ESC)
        screen.type(ESC)
        screen.wait_until(
            lambda s: s.text().count("The question beside the conversation is withdrawn") == 2,
            what="both withdrawn",
        )
        screen.wait_gone("Esc withdraws /btw")
        for gate in gates:
            gate.open()


def test_a_tool_that_is_called_instead_of_an_answer_is_not_run(tmp_path: Path) -> None:
    write = Call(name="write_file", arguments={"path": "made.txt", "content": "made"})
    steps = [Reply(text="Hello."), Reply(calls=(write,))]
    with OpenAIServer(steps) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.type("/btw write it\r")
        screen.wait_for("dude gave no words, but wanted to call a tool.")
        screen.wait_for("› /btw write it")
        assert not list(tmp_path.rglob("made.txt"))
