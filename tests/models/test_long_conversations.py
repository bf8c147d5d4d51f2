"""A request costs what is new in it, however long the conversation is, and its body is what it would be."""

import msgspec
import pytest
from ai_kit import ADD, Ears, called, client_of, said
from support.dialects import MODELS, body_of
from support.model_server import Reply
from test_dialects import SERVERS, environ_of

from midstream.core.conversation import Message, seen_by
from midstream.models import anthropic_messages, openai_chat
from midstream.models.encoded_messages import Piece, Pieces


def long_conversation(turns: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    for turn in range(turns):
        call = called("result " * 40, text=f"looking {turn}")
        ids = {f"call_{n}": f"call_{turn}_{n}" for n in range(1, 3)}
        messages += [
            Message(role="user", text=f"question {turn} " + "word " * 60, author="@user"),
            msgspec.structs.replace(
                call,
                calls=tuple(msgspec.structs.replace(c, id=ids[c.id]) for c in call.calls),
                results=tuple(
                    msgspec.structs.replace(r, call_id=ids[r.call_id]) for r in call.results
                ),
            ),
            Message(role="assistant", text=f"answer {turn} " + "word " * 120, author="dude"),
        ]
    return tuple(messages)


def test_a_message_is_encoded_once_in_every_view_of_the_conversation() -> None:
    encoded: list[Message] = []

    def piece_of(message: Message) -> Piece:
        encoded.append(message)
        return openai_chat.piece_of(message)

    pieces, messages = Pieces(), long_conversation(50)
    first = pieces.of(seen_by(messages, agent="dude", side="assistant"), piece_of)
    again = pieces.of(
        seen_by(
            (*messages, Message(role="user", text="new words")), agent="dude", side="assistant"
        ),
        piece_of,
    )

    assert len(encoded) == len(messages) + 1
    assert again[:-1] == first


def test_what_was_kept_is_never_taken_for_another_message() -> None:
    pieces = Pieces()
    for number in range(2_000):
        # Each is gone before the next is made, and may stand where the other stood.
        [piece] = pieces.of(
            [Message(role="user", text=f"words {number}")], anthropic_messages.piece_of
        )
        assert f"words {number}".encode() in piece.said


def test_the_oldest_pieces_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.models.encoded_messages.MAX_KEPT_BYTES", 10_000)
    encoded: list[str] = []

    def piece_of(message: Message) -> Piece:
        encoded.append(message.text)
        return Piece(message.role, message.text.encode())

    pieces = Pieces()
    messages = [Message(role="user", text=f"{number} " + "x" * 1_000) for number in range(30)]
    assert [piece.said.decode() for piece in pieces.of(messages, piece_of)] == encoded

    newest = messages[-9:]
    pieces.of(newest, piece_of)

    assert encoded[30:] == []


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_a_body_of_megabytes_arrives_as_it_is(dialect: str) -> None:
    model = MODELS[dialect][0]
    request = said(messages=long_conversation(1_000), tools=(ADD,), model=model)
    with SERVERS[dialect](default=Reply(text="hi")) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        replies = [await client.request(request, Ears()) for _ in range(2)]
        await client.aclose()

    assert [reply.text for reply in replies] == ["hi", "hi"]
    assert server.requests[0] == server.requests[1] == body_of(request, model)
    assert len(msgspec.json.encode(server.requests[0])) > 1_000_000
