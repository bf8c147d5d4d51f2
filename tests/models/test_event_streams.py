"""What the bytes of a stream come to, however they are cut, and whatever stands between them."""

import asyncio

import pytest
from ai_kit import ADD, Ears, ask, client_of, said
from hostile_endpoint import CALLS, DONE, HEAD, STOP, chunk, endpoint, event, more, say
from hostile_endpoint import ask as calls
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.inputs import RequestedCall
from midstream.language.errors import WorldTrouble
from midstream.models.http_stream import packed
from midstream.runtime.ports import ModelReply


def chunked(content: bytes) -> list[bytes]:
    """The body of an answer, a byte a chunk, each chunk's parts apart."""
    parts = [part for byte in content for part in (b"1", b"\r\n", bytes([byte]), b"\r", b"\n")]
    return [*parts, b"0\r\n\r\n"]


async def reply_to(*pieces: bytes, head: bytes = HEAD, ears: Ears | None = None) -> ModelReply:
    async with endpoint(head, pieces, holds=False) as there:
        return await ask(client_of(f"{there.base_url}/v1"), said(tools=(ADD,)), ears)


async def test_a_reply_whose_every_byte_is_a_chunk_is_whole() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    arguments = calls('{"a": 1, ') + more('"b": 2}', index="0")
    stream = say("Grüß ") + b": ping\r\n\r\n" + say("dich 🙂") + arguments + CALLS

    reply = await reply_to(*chunked(stream), head=head)

    assert reply.text == "Grüß dich 🙂"
    assert reply.calls == (RequestedCall(name="add", arguments={"a": 1, "b": 2}),)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
async def test_what_stands_between_events_is_none(ends: bytes) -> None:
    between = b": a comment\n\nid: 7\nretry: 3\nnonsense\n\ndata\n\nevent: nobody\n\n"
    stream = b"\xef\xbb\xbf" + say("Hi") + between + say(" there") + STOP.rstrip(b"\n")

    assert (await reply_to(*chunked_by(stream.replace(b"\n", ends), 7))).text == "Hi there"


def chunked_by(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


async def test_one_event_may_have_its_json_on_several_lines() -> None:
    lines = chunk('{"content":\n"Hi"}').replace(b'\n"Hi"', b'\ndata: "Hi"')

    assert (await reply_to(lines, STOP)).text == "Hi"


async def test_an_error_event_in_mid_stream_ends_the_reply() -> None:
    ears = Ears()

    with pytest.raises(WorldTrouble, match="reported an error in place of a reply: Out of luck"):
        await reply_to(say("Half"), event('{"message": "Out of luck."}', "error"), ears=ears)

    assert ears.words == "Half"


async def test_an_end_mark_without_an_empty_line_after_it_is_one() -> None:
    assert (await reply_to(say("Hi"), chunk("{}", '"stop"'), DONE.strip())).text == "Hi"


async def test_a_reply_that_said_why_it_ended_is_whole_though_the_connection_breaks() -> None:
    head = HEAD.replace(b"connection: close", b"content-length: 9999")

    assert (await reply_to(say("Hi"), chunk("{}", '"stop"'), head=head)).text == "Hi"


@pytest.mark.parametrize(
    ("pieces", "sums"),
    [
        ((calls("{}", id="x"), calls("{}", id="y")), 2),
        ((calls('{"a":1,', index="null", id="x"), more('"b":2}', index="null")), 1),
        ((calls("{}", index="null", id=""), calls("{}", index="null", id="")), 2),
        ((calls("{}", index="null", id="x"), calls("{}", index="null", id="y")), 2),
    ],
    ids=["one index, two ids", "no index", "neither, twice", "no index, two ids"],
)
async def test_calls_are_told_apart_without_their_index(
    pieces: tuple[bytes, ...], sums: int
) -> None:
    assert len((await reply_to(*pieces, CALLS)).calls) == sums


@pytest.mark.parametrize(
    ("words", "thoughts", "text"),
    [
        (("<think>hm", "m</think>\n\nYes."), "hmm", "Yes."),
        (("\n<thi", "nk>hmm</th", "ink>", "Yes."), "hmm", "Yes."),
        (("<thin", "gs>"), "", "<things>"),
        (("a < b <think>",), "", "a < b <think>"),
        (("<think>never said",), "never said", ""),
    ],
)
async def test_thoughts_between_tags_are_no_words(
    words: tuple[str, ...], thoughts: str, text: str
) -> None:
    ears = Ears()

    reply = await reply_to(*map(say, words), STOP, ears=ears)

    assert (reply.text, "".join(ears.heard("thinking"))) == (text, thoughts)


async def test_words_and_thoughts_may_come_in_parts() -> None:
    ears = Ears()
    thought = '{"type":"thinking","thinking":[{"type":"text","text":"hmm"}]}'

    reply = await reply_to(
        chunk(f'{{"content":[{thought},{{"type":"text","text":"Yes."}},7]}}'), STOP, ears=ears
    )

    assert (reply.text, ears.heard("thinking")) == ("Yes.", ["hmm"])


@given(st.lists(st.binary(max_size=90_000), max_size=6))
def test_a_body_goes_out_whole_in_parts_of_a_size(body: list[bytes]) -> None:
    parts = packed(body)

    assert b"".join(parts) == b"".join(body)
    assert all(len(part) <= 65_536 for part in parts)


@pytest.mark.parametrize("size", [1, 40, 150, 230, 231, 300, 420, 500, 640])
async def test_a_halt_at_any_byte_closes_the_connection(size: int) -> None:
    stream = say("Grüß dich 🙂") + calls('{"a": 1, ') + more('"b": 2}', index="0") + CALLS
    ears = Ears()
    async with endpoint(HEAD, [stream[:size]], holds=True) as there:
        client = client_of(f"{there.base_url}/v1")
        asking = asyncio.ensure_future(client.request(said(tools=(ADD,)), ears))
        await there.said.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await there.left.wait()
        await client.aclose()

    assert ears.words in ("", "Grüß dich 🙂")
