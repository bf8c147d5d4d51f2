"""Chats as rows, and the last turns of one: what a person finds an earlier chat by."""

import pytest
from decide_kit import asks, call, done, replies, says, tell
from msgspec.structs import replace

from midstream.core.conversation import SUMMARY, Message, ToolCall, ToolResult
from midstream.core.events import AgentResponded, AnyFact, InputDisposed, RunRenamed, Usage
from midstream.core.inputs import Compact, ModelReplied, Rename
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.core.summaries import summary_key
from midstream.language.names import REQUEST_USERS_INPUT
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.views.amounts import ago
from midstream.views.cells import width_of
from midstream.views.listing import Summary, chat_rows, named_like, price_of, summarised, title_of
from midstream.views.turns import PastTurn, Said, past_of

CHAT = chat_definition("dude", Role(), {})
PRICED = Usage(model="m", input_tokens=1, output_tokens=1, cost_usd="0.25")
ZOO = Summary(workflow="role:dude", kind="chat", first="tell me about fish", turns=3, updated_at=0)


def listed(facts: list[AnyFact]) -> Summary:
    summary = Summary()
    for seq, fact in enumerate(facts, 1):
        summary = summarised(summary, Envelope(run="r", at=float(seq), event=fact, seq=seq))
    return summary


def rows(summary: Summary = ZOO, *, width: int = 100, now: float = 60.0) -> list[str]:
    return chat_rows(2, "ab12", summary, is_active=True, where="", now=now, width=width)


# --- what is kept of a chat ------------------------------------------------------------------------


def test_a_listing_knows_the_first_words_the_turns_the_cost_and_the_name() -> None:
    _, facts = tell(
        CHAT,
        *(says("tell me\nabout fish", id="a"), replies("They swim.", usage=PRICED)),
        *(says("and birds", id="b"), replies("They fly.", usage=PRICED), Rename(name="zoo")),
        input=None,
    )
    summary = listed(facts)
    assert (summary.first, summary.turns, summary.usd) == ("tell me about fish", 2, "0.50")
    assert (summary.name, summary.unpriced) == ("zoo", 0)


def test_a_reply_without_a_price_is_counted_and_words_that_were_not_heard_are_not() -> None:
    usage = Usage(model="m", input_tokens=1)
    facts: list[AnyFact] = [
        AgentResponded(agent="a", text="x", usage=usage),
        InputDisposed(input_id="i", disposition="withdrawn"),
        RunRenamed(name=""),
    ]
    summary = listed(facts)
    assert (summary.unpriced, summary.turns, summary.usd) == (1, 0, "0")
    assert price_of(summary) == "cost unknown"


def test_what_a_summary_cost_counts_too() -> None:
    told = [(says(f"q{n}", id=f"q{n}"), replies("word " * 99)) for n in range(4)]
    summary = ModelReplied(key=summary_key(1), text="s", usage=PRICED)
    _, facts = tell(CHAT, *(step for pair in told for step in pair), Compact(), summary, input=None)
    assert listed(facts).usd == "0.25"


# --- rows -----------------------------------------------------------------------------------------


def test_a_wide_row_says_everything_on_one_line_of_that_width() -> None:
    (row,) = rows()
    assert row.startswith("› 2 tell me about fish")
    assert row.endswith("dude · 3 turns · just now · ab12")
    assert width_of(row) == 100


@pytest.mark.parametrize("width", [38, 60])
def test_a_narrow_row_takes_more_lines_and_none_is_wider_than_there_is_room(width: int) -> None:
    long = Summary(workflow="role:dude", first="字" * 40, turns=1, usd="1.5")
    title, *about = rows(long, width=width)
    assert max(map(width_of, (title, *about))) <= width
    assert " · ".join(row.strip() for row in about) == "dude · 1 turn · $1.50 · just now · ab12"


def test_a_name_comes_before_the_first_words_and_nothing_of_it_is_obeyed() -> None:
    named = Summary(name="zoo\x1b[2J", first="x")
    assert title_of(named) == "zoo\ufffd[2J"
    assert title_of(Summary()) == "(no words kept of its beginning)"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "just now"), (600, "10 min ago"), (7200, "2 h ago"), (90_000, ""), (-5, "")],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert ago(seconds) == words


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("ZOO", ["1"]), ("zoo t", ["2"]), ("z", ["1", "2"]), ("", []), ("none", [])],
)
def test_a_chat_is_found_by_its_name_or_the_beginning_of_it(wanted: str, found: list[str]) -> None:
    assert named_like(wanted, [("1", "zoo"), ("2", "Zoo trip"), ("3", "")]) == found


# --- the last turns -------------------------------------------------------------------------------


def test_the_last_turns_say_what_was_asked_and_what_came_of_it() -> None:
    run, _ = tell(
        chat_definition("dude", Role(), {}),
        *(says("one", id="a"), replies("First.")),
        *(says("two", id="b"), replies("Second."), says("three", id="c"), replies("Third.")),
        input=None,
    )
    past = past_of(run, most=2)
    assert (past.count, past.is_all) == (2, False)
    assert past_of(run, most=3).is_all
    assert past.turns == (
        PastTurn(words="two", said=(Said(agent="dude", text="Second."),)),
        PastTurn(words="three", said=(Said(agent="dude", text="Third."),)),
    )


def test_tool_calls_are_counted_with_the_words_they_led_to() -> None:
    from decide_kit import TOOLS

    run, _ = tell(
        chat_definition("dude", Role(), TOOLS),
        *(says("look", id="a"), replies("", call("look"), call("look"))),
        *(done("call_1"), done("call_2"), replies("", call("look")), done("call_3")),
        replies("Seen."),
        input=None,
    )
    (turn,) = past_of(run, most=3).turns
    assert turn.said == (Said(agent="dude", text="Seen.", calls=3),)


def test_what_a_person_answered_stands_behind_the_words_that_asked() -> None:
    from decide_kit import TOOLS

    run, _ = tell(
        chat_definition("dude", Role(), TOOLS),
        *(says("x", id="a"), replies("Well.", asks("Which?")), says("red", "q2", id="b")),
        *(replies("", asks("Sure?")), says("yes", "q3", id="c"), replies("Red it is.")),
        input=None,
    )
    (turn,) = past_of(run, most=3).turns
    assert turn.said == (
        Said(agent="dude", text="Well.", answered=(("Which?", "red"),)),
        Said(agent="dude", text="", answered=(("Sure?", "yes"),)),
        Said(agent="dude", text="Red it is."),
    )


def test_a_question_without_words_such_as_only_another_s_history_holds_is_told() -> None:
    asked = ToolCall(id="c", name=REQUEST_USERS_INPUT, arguments={})
    told = ToolResult(call_id="c", outcome="completed", text="red")
    message = Message(role="assistant", author="dude", text="", calls=(asked,), results=(told,))
    run, _ = tell(CHAT, says("x", id="a"), replies("Well."), input=None)
    ((name, messages),) = run.contexts.items()
    run = replace(run, contexts={name: (*messages, message)})

    assert past_of(run, most=3).turns[0].said[-1].answered == (("", "red"),)


def test_a_question_of_an_agent_is_no_turn_of_the_person() -> None:
    run, _ = tell(CHAT, says("x", id="a"), replies("", asks("Which?")), input=None)
    assert len(past_of(run, most=3).turns) == 1


def test_a_summary_is_told_apart_and_an_empty_run_has_no_past() -> None:
    run = Run(id="r", contexts={"c": (Message(role="user", text="sum", author=SUMMARY),)})
    assert past_of(run, most=3).summary == "sum"
    assert past_of(run, most=3).turns == ()
    assert past_of(Run(id="r"), most=3).turns == ()
