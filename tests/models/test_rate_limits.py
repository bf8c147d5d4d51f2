"""Requests wait their turn where more are wanted than there are, and are let out as they come in."""

import asyncio
from collections.abc import Mapping

import pytest
from ai_kit import ask, client_of, said
from support.openai_server import OpenAIServer, Reply

from midstream.models.rate_limits import RateLimits
from midstream.runtime.storage import Rate
from midstream.testing.fakes import JumpingClock


async def ann(run: str) -> str:
    assert run == "run"
    return "ann"


class Supplies:
    """Where nothing is left until somebody says so."""

    def __init__(self, *waits: float) -> None:
        self.waits = [*waits]
        self.asked: list[Mapping[str, Rate]] = []

    async def admit(self, wanted: Mapping[str, Rate]) -> float:
        self.asked.append(wanted)
        return self.waits.pop(0) if self.waits else 0.0


def limits(
    supplies: Supplies, rates: Mapping[str, float], clock: JumpingClock | None = None
) -> RateLimits:
    return RateLimits(
        rates,
        supplies.admit,
        person=ann,
        clock=clock or JumpingClock(),
        environ={"OPENAI_API_KEY": "sk-secret"},
    )


ALL = {
    "openai:a": 60.0,
    "$OPENAI_API_KEY": 600.0,
    "user": 3.0,
    "openai:b": 1.0,
    "$GROQ_API_KEY": 1.0,
}


async def test_a_request_takes_of_its_model_its_key_and_its_person() -> None:
    supplies = Supplies()
    await limits(supplies, ALL).turn("openai:a", "run", lambda _: None)
    assert supplies.asked == [
        {
            "openai:a": Rate(per_minute=60.0, burst=10.0),
            "$OPENAI_API_KEY": Rate(per_minute=600.0, burst=100.0),
            "user ann": Rate(per_minute=3.0, burst=1.0),
        }
    ]
    assert "sk-secret" not in repr(supplies.asked)


async def test_what_nothing_is_said_of_goes_out_at_once() -> None:
    supplies = Supplies()
    await limits(supplies, {"openai:b": 1.0}).turn("openai:a", "run", lambda _: None)
    assert supplies.asked == []


async def test_who_waits_says_so_and_asks_again_in_time() -> None:
    supplies, clock, told = Supplies(2.0, 60.0), JumpingClock(), list[str]()
    waiting = asyncio.ensure_future(
        limits(supplies, {"openai:a": 1.0}, clock).turn("openai:a", "run", told.append)
    )
    while not waiting.done():
        clock.jump(1.0)
        await asyncio.sleep(0)
    assert len(supplies.asked) == 3
    assert told == [
        "openai:a: waits its turn, about 2 s (openai:a)",
        "openai:a: waits its turn, about 60 s (openai:a)",
        "openai:a: it is its turn",
    ]


async def test_a_request_that_is_cancelled_while_it_waits_is_never_sent() -> None:
    begun = asyncio.Event()

    async def turn(_: str, run: str, tell: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with OpenAIServer((Reply(text="no"),)) as server:
        asking = asyncio.ensure_future(ask(client_of(server, turn=turn), said()))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert server.requests == []
