"""Events become frames: in order, in slices, and counted where they are too many."""

import asyncio
import re
from collections.abc import Callable

import pytest
from deadline import DEADLINE_S

from midstream.core import events as e
from midstream.core.notices import Envelope, TextDelta
from midstream.core.question import Question
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Line
from midstream.tui.themes import Look


class Paper:
    """What was drawn. Takes no frame while `is_busy`."""

    def __init__(self) -> None:
        self.text = ""
        self.frames = 0
        self.is_busy = False
        self.drew = asyncio.Event()
        self.renderer = EventRenderer(with_cards=True)
        self.scrollback = Scrollback(
            self.renderer,
            width=lambda: 80,
            look=Look(colour=False),
            draw=self.draw,
        )

    def draw(self, text: str) -> bool:
        self.drew.set()
        if self.is_busy:
            return False
        self.frames += 1
        self.text += re.sub(r"\x1b\[[\d;]*m", "", text)
        return True

    def log(self, text: str) -> None:
        self.scrollback.add(Envelope(run="r1", at=0.0, event=e.WorkflowOutput(text=text), seq=1))

    def reply(self, text: str) -> None:
        event = e.AgentResponded(agent="ada", text=text)
        self.scrollback.add(Envelope(run="r1", at=0.0, event=event, seq=1))

    async def shows(self, text: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while text not in self.text:
                self.drew.clear()
                await self.drew.wait()


async def test_many_events_go_into_few_frames_in_order() -> None:
    paper = Paper()
    paper.scrollback.open()
    for number in range(2000):
        paper.log(f"line {number}.")

    await paper.shows("line 1999.")
    assert [line for line in paper.text.split("\r\n") if line] == [
        f"· line {number}." for number in range(2000)
    ]
    assert paper.frames < 1000
    paper.scrollback.finish()


async def test_branches_that_go_on_stand_before_a_question_one_of_them_asks() -> None:
    """Though the question is drawn by another hand: its card has no room for all of it."""
    paper = Paper()
    events: tuple[e.AnyFact, ...] = (
        e.StateTransition(source="look", target="look", reason="going on", branch="left"),
        e.QuestionAsked(question_id="q1", number=1, kind="question", text="Which?", branch="left"),
    )
    for number, event in enumerate(events, 1):
        paper.scrollback.add(Envelope(run="r1", at=0.0, event=event, seq=number))
    paper.scrollback.stand_in_full("r1", [whole("q1")])
    paper.scrollback.finish()

    assert [line for line in paper.text.split("\r\n") if line][-2:] == [
        "▶ left  goes on",
        "the whole q1",
    ]


def whole(id: str) -> tuple[Question, list[Line]]:
    """Return a question whose card does not hold it, and what is printed of it."""
    question = Question(id=id, number=1, kind="approval", text=f"the whole {id}")
    return question, [Line((("", question.text),))]


async def test_a_question_stands_in_full_once_the_terminal_took_all_of_it() -> None:
    paper = Paper()
    paper.is_busy = True
    paper.scrollback.open()
    paper.scrollback.stand_in_full("r1", [whole("q1")])
    assert paper.scrollback.is_on_its_way("q1")
    await paper.drew.wait()
    assert paper.scrollback.is_on_its_way("q1")
    paper.is_busy = False
    await paper.shows("the whole q1")
    assert not paper.scrollback.is_on_its_way("q1")
    paper.scrollback.finish()


@pytest.mark.parametrize(
    ("meanwhile", "times"),
    [
        (lambda s: None, 1),
        (lambda s: s.covered(), 2),
        (lambda s: s.stand_in_full("r1", []), 2),  # its card held it, or another run had the lines
    ],
    ids=["nothing", "covered", "not wanted"],
)
async def test_a_question_is_printed_again_where_what_stood_may_be_out_of_sight(
    meanwhile: Callable[[Scrollback], None], times: int
) -> None:
    paper = Paper()
    paper.scrollback.open()
    for _ in range(3):
        paper.scrollback.stand_in_full("r1", [whole("q1")])
    await paper.shows("the whole q1")
    meanwhile(paper.scrollback)
    paper.scrollback.stand_in_full("r1", [whole("q1")])
    assert paper.scrollback.is_on_its_way("q1") == (times > 1)
    paper.scrollback.finish()
    assert paper.text.count("the whole q1") == times


async def test_a_reply_that_is_rendered_elsewhere_keeps_its_place() -> None:
    paper = Paper()
    paper.scrollback.open()
    paper.log("before")
    paper.reply("some **bold** words")
    paper.log("after")

    await paper.shows("after")
    assert paper.text == "· before\r\n▌ ada\r\nsome bold words\r\n· after\r\n"
    paper.scrollback.finish()


async def test_the_live_words_go_when_their_scrollback_is_there() -> None:
    paper = Paper()
    paper.scrollback.open()
    paper.scrollback.add(Envelope(run="r1", at=0.0, event=TextDelta(agent="ada", text="some **bo")))
    paper.reply("some **bold** words")

    await paper.shows("bold")
    paper.scrollback.finish()
    assert paper.renderer.live.shown([], height=5, width=80) == []


async def test_a_busy_terminal_gets_everything_later() -> None:
    paper = Paper()
    paper.is_busy = True
    paper.scrollback.open()
    paper.log("waits")
    async with asyncio.timeout(DEADLINE_S):
        await paper.drew.wait()
    assert paper.text == ""

    paper.is_busy = False
    await paper.shows("waits")
    paper.scrollback.finish()


async def test_what_outruns_the_terminal_for_long_is_left_out_and_counted() -> None:
    paper = Paper()
    for number in range(25_000):
        if number % 5:
            paper.log(f"line {number}.")
        else:
            paper.scrollback.say(f"line {number}.")
    paper.scrollback.finish()

    told = paper.text.count("line ")
    assert "lines left out: the output outran the terminal." in paper.text
    left_out = int(paper.text.split(" lines left out")[0].split()[-1])
    assert told + left_out == 25_000
    assert "line 24999." in paper.text


async def test_finishing_prints_at_once_and_so_does_everything_after_it() -> None:
    paper = Paper()
    paper.scrollback.open()
    paper.reply("some **bold** words")
    paper.scrollback.finish()
    assert "some **bold** words" in paper.text

    paper.log("late")
    assert "late" in paper.text


async def test_what_was_shown_of_a_reply_stands_once_before_what_is_said_of_a_run_that_is_left() -> (
    None
):
    paper = Paper()
    paper.scrollback.open()
    delta = TextDelta(agent="ada", text="I would like")
    paper.scrollback.add(Envelope(run="r1", at=0.0, event=delta))
    paper.scrollback.finish()
    assert paper.text == ""
    for _ in range(2):
        paper.scrollback.add(paper.renderer.left())
    paper.scrollback.say("r1 is kept.", kind="note")
    paper.scrollback.say("r2 is kept.", kind="note")

    assert paper.text.split("\r\n") == [
        "▌ ada",
        "I would like",
        "▌ [interrupted]",
        "· r1 is kept.",
        "· r2 is kept.",
        "",
    ]
