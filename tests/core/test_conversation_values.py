"""Conversations: how agents see them, and what trimming leaves."""

from collections.abc import Sequence

import pytest

from midstream.core import conversation
from midstream.core.append_only import Log, logged
from midstream.core.conversation import (
    USER,
    Message,
    ToolCall,
    ToolResult,
    ends_open,
    length,
    seen_by,
    trimmed,
)

CALL = ToolCall(id="c1", name="look", arguments={"at": "a"})
RESULT = ToolResult(call_id="c1", outcome="completed", text="seen")


def said(role: str, text: str, author: str = "", *, calls: bool = False) -> Message:
    return Message(
        role=role,  # type: ignore[arg-type]
        text=text,
        author=author,
        calls=(CALL,) if calls else (),
        results=(RESULT,) if calls else (),
    )


TALK = (
    said("system", "be brief"),
    said("user", "tidy", USER),
    said("assistant", "looking", "dude", calls=True),
    said("assistant", "", "dude", calls=True),
    said("assistant", "done", "dude"),
    said("user", "is it?", "critic", calls=True),
)


def test_an_agent_sees_its_own_words_as_assistant_with_its_calls() -> None:
    seen = seen_by(TALK, agent="dude", side="assistant")

    assert [(m.role, m.text, len(m.calls)) for m in seen] == [
        ("system", "be brief", 0),
        ("user", "tidy", 0),
        ("assistant", "looking", 1),
        ("assistant", "", 1),
        ("assistant", "done", 0),
        ("user", "is it?", 0),
    ]


def test_an_agent_on_the_other_side_sees_the_sides_swapped_but_not_the_user() -> None:
    seen = seen_by(TALK, agent="critic", side="user")

    assert [(m.role, m.text, len(m.calls)) for m in seen] == [
        ("system", "be brief", 0),
        ("user", "tidy", 0),
        ("user", "looking", 0),
        ("user", "done", 0),
        ("assistant", "is it?", 1),
    ]


def test_a_result_goes_where_its_call_goes() -> None:
    for agent, side in (("dude", "assistant"), ("critic", "user"), ("nobody", "assistant")):
        for message in seen_by(TALK, agent=agent, side=side):  # type: ignore[arg-type]
            assert [r.call_id for r in message.results] == [c.id for c in message.calls]


def test_length_counts_words_calls_and_results() -> None:
    assert length(TALK[2]) == len("looking") + len("look") + len('{"at":"a"}') + len("seen")


@pytest.mark.parametrize("limit", [None, 10_000])
def test_what_fits_is_left_alone(limit: int | None) -> None:
    assert trimmed(TALK, limit) is TALK


def test_trimming_takes_the_oldest_and_leaves_system_messages_and_the_newest() -> None:
    assert trimmed(TALK, 1) == (TALK[0], TALK[-1])


def test_trimming_takes_no_more_than_it_must() -> None:
    whole = sum(map(length, TALK))

    assert trimmed(TALK, whole - 1) == (TALK[0], *TALK[2:])


@pytest.mark.parametrize("limit", [100_000, 4_000])
def test_trimming_measures_what_is_new(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def measuring(message: Message) -> int:
        nonlocal measured
        measured += 1
        return length(message)

    monkeypatch.setattr(conversation, "length", measuring)
    kept: Sequence[Message] = Log()
    for number in range(2_000):
        kept = trimmed(logged(kept, said("user", f"{number:010}")), limit)

    assert [m.text for m in kept] == [
        f"{n:010}" for n in range(2_000 - limit // 10, 2_000) if n >= 0
    ]
    assert measured < 2_000 * 100, "each append measured all that is kept"


def test_trimming_takes_a_call_with_its_result_or_not_at_all() -> None:
    for limit in range(sum(map(length, TALK)) + 1):
        for message in trimmed(TALK, limit):
            assert [r.call_id for r in message.results] == [c.id for c in message.calls]


@pytest.mark.parametrize(
    ("messages", "is_open"), [((), False), (TALK[:2], False), (TALK[:3], False), (TALK[:5], True)]
)
def test_ends_open_tells_plain_words_of_the_assistant(
    messages: tuple[Message, ...], is_open: bool
) -> None:
    assert ends_open(messages) is is_open
