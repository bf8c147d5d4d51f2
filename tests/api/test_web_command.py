"""`midstream web` beside what it serves: who it lets in, and what its terminal is for."""

import asyncio
import os
from pathlib import Path

import pytest

from midstream.cli import serve
from midstream.cli.main import exit_code
from midstream.language.errors import UserMistake
from midstream.server import host
from midstream.server.access import Access


async def test_each_enter_at_its_terminal_makes_one_address_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    reading, writing = os.pipe()
    monkeypatch.setattr(serve, "STDIN", reading)
    monkeypatch.setattr(serve, "say", said.put_nowait)
    with serve._inviting_on_enter(Access()):
        addresses = []
        for _ in range(3):
            os.write(writing, b"\n")
            addresses.append(await said.get())
        os.close(writing)
    assert len(set(addresses)) == 3
    os.close(reading)


async def test_a_second_one_says_which_port_it_has_and_who_has_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with host.served([], Access(), port=0) as address:
        usual = int(address.rpartition(":")[2])
        monkeypatch.setattr(host, "PORT", usual)
        monkeypatch.setattr(host, "_ASKED_S", 60.0)
        access = Access()
        async with host.served([], access) as second:
            assert await serve.moved(None, access) == (
                f"The port {usual} is taken: another midstream listens there. "
                f"This one has {second.rpartition(':')[2]}.",
            )
            assert await serve.moved(access.port, access) == ()
        with pytest.raises(UserMistake, match=f":{usual}: another midstream does already"):
            async with host.served([], Access(), port=usual):
                pass


REFUSED = {
    ("--listen", "0.0.0.0:0"): "wants a password",
    ("--listen", "nope"): "is no address",
    ("--user-header", "X-User"): "believes whoever sends it",
    ("--behind-proxy", "mid.example.org"): "is no address",
    ("--listen", "0.0.0.0:0", "--password-file", "short"): "too short",
}


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_what_would_let_others_in_is_refused_with_what_to_do(
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short\n")
    assert exit_code(["web", *options]) == 2
    assert REFUSED[options] in capfd.readouterr().err


def test_the_code_of_an_address_is_drawn_where_it_fits() -> None:
    rows = serve.code_of("http://127.0.0.1:8377/?invite=x", width=80)
    assert len({len(row) for row in rows}) == 1
    assert 2 * len(rows) in (len(rows[0]), len(rows[0]) + 1)
    assert rows[0] == "█" * len(rows[0])  # the quiet zone
    assert serve.code_of("http://127.0.0.1:8377/?invite=x", width=20) == ()
