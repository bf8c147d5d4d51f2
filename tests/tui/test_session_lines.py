"""What the screen says of a chat as a whole: its name, its summary, where it was."""

from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.conversation import SUMMARY, USER, Message, ToolCall, ToolResult
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.core.todo import TodoItem
from midstream.tui.event_lines import Words, plain_words
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import to_plain
from midstream.tui.talk_events import PAST_CHARS, past_blocks


def told(fact: e.AnyFact) -> str:
    blocks = EventRenderer(with_cards=True).render(Envelope(run="r", at=0.0, event=fact, seq=1))
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    )


def shown(*messages: Message) -> str:
    blocks = past_blocks(Run(id="r", contexts={"chat": messages}))
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    )


def said(text: str) -> Message:
    return Message(role="user", text=text, author=USER)


def replied(text: str, *, interrupted: bool = False) -> Message:
    return Message(role="assistant", text=text, author="dude", interrupted=interrupted)


def test_a_summary_says_how_much_there_was_and_is() -> None:
    fact = e.ConversationCompacted(
        agent="dude", context="c", count=12, summary="s", tokens_before=34_000, tokens_after=1_200
    )
    assert told(fact) == (
        "✓ compacted  12 messages replaced by a summary: about 34k tokens before, 1.2k tokens now\n"
    )
    assert told(e.CompactionBegan(agent="dude", context="c", count=1)) == ""


def test_results_that_gave_way_are_told_in_a_line() -> None:
    fact = e.ResultsTrimmed(
        agent="dude",
        context="c",
        count=12,
        least=4_000,
        results=7,
        room=30_000,
        tokens_before=92_000,
        tokens_after=41_000,
    )
    assert told(fact) == (
        "✓ trimmed  7 old tool results taken out, the journal keeps them: about 92k tokens before, "
        "41k tokens now\n"
    )


def test_no_summary_says_why_and_what_to_do() -> None:
    assert told(e.CompactionEnded(agent="dude", reason="interrupted")) == (
        "· Nothing was compacted: the summary was interrupted.\n"
    )
    failed = e.CompactionEnded(agent="dude", reason="It is dead.", hint="Mend it.", is_error=True)
    assert told(failed) == "✗ Nothing was compacted: It is dead. Mend it.\n"


def test_a_name_says_how_to_come_back_to_it() -> None:
    assert told(e.RunRenamed(name="zoo")) == (
        "· It is called 'zoo' now: /resume zoo comes back to it.\n"
    )
    assert told(e.RunRenamed(name="")) == "· Its name was removed.\n"


def test_a_change_of_the_todo_list_says_what_and_how_far_it_is() -> None:
    items = (TodoItem(text="Parse", status="done"), TodoItem(text="Print\x1b[2J"))

    assert told(e.TodoEdited(edit="done 1", items=items)) == (
        "· Todo list: done 1  (1/2 · Print\u241b[2J)\n"
    )
    assert told(e.TodoEdited(edit="drop 1")) == "· Todo list: drop 1  (empty)\n"


def test_the_past_is_shown_as_it_stood_on_the_screen() -> None:
    earlier = (said("zero"), replied("Zero."), said("one"), replied("One."))
    text = shown(*earlier, said("two"), replied("Tw", interrupted=True), said("three"))
    assert text.splitlines() == [
        "· Where you were: the last 3 turns.",
        "› one",
        "▌ dude",
        "One.",
        "› two",
        "▌ dude",
        "Tw",
        "▌ [interrupted]",
        "› three",
    ]


def test_the_past_has_what_a_person_answered() -> None:
    asks = ToolCall(id="c", name="request_users_input", arguments={"question": "Which?"})
    answer = ToolResult(call_id="c", outcome="completed", text="red")
    message = replace(replied("Well."), calls=(asks,), results=(answer,))
    assert shown(said("one"), message, replied("Red it is.")).splitlines()[1:] == [
        "› one",
        "▌ dude",
        "Well.",
        "✓ Which?  red",
        "▌ dude",
        "Red it is.",
    ]


def test_a_long_reply_is_cut_and_a_summary_before_it_is_named() -> None:
    summary = Message(role="user", text="They talked.", author=SUMMARY)
    text = shown(summary, said("on"), replied("x" * (PAST_CHARS + 7)))
    assert "after a summary of older ones" in text
    assert "[+7 characters: /history]" in text
    assert shown() == ""


def test_nothing_of_the_past_reaches_the_terminal_as_more_than_text() -> None:
    assert "\x1b" not in shown(said("\x1b[2Jhi"), replied("\x1b]0;evil\x07"))
