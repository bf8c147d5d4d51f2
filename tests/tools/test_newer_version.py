"""A newer version: what the index is asked, what is believed of it, when it is told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from web_kit import answer, redirect, site

from midstream.config.settings import read_settings
from midstream.tools import web_addresses
from midstream.tools.newer_version import EVERY_S, FILE, INDEX, known_notice, look_up

NOW = 1_800_000_000.0


def index(version: object, **more: object) -> bytes:
    said = {"info": {"version": version, "summary": "s", **more}, "releases": {}}
    return answer(json.dumps(said), "application/json")


async def told(
    state: Path, page: bytes, *, own: str = "0.1.0", asks: int = 1, now: float = NOW
) -> str:
    """Return what the next start says, after an index has answered so."""
    async with site({"/json": page}) as here:
        await look_up(state, now=now, url=here.at("/json"), own=own, deadline_s=DEADLINE_S)
        assert len(here.asked) == asks
    return known_notice(state, own=own)


@pytest.mark.parametrize("version", ["0.1.1", "0.2", "0.10.0", "1.0.0.0"])
async def test_a_newer_version_is_told_with_what_to_do(tmp_path: Path, version: str) -> None:
    assert await told(tmp_path, index(version)) == (
        f"midstream {version} is on the package index; this is 0.1.0. "
        "To have it: pip install -U midstream"
    )


@pytest.mark.parametrize("version", ["0.1.0", "0.1", "0.1.0.0", "0.0.9", "0"])
async def test_the_same_and_an_older_version_are_not_told(tmp_path: Path, version: str) -> None:
    assert await told(tmp_path, index(version)) == ""


GARBAGE = {
    "no JSON": answer("<html>", "text/html"),
    "nothing": answer("", "application/json"),
    "another shape": answer('{"info": []}', "application/json"),
    "deep": answer("[" * 100_000, "application/json"),
    "too long": answer(b'{"info": {"version": "9.0"}}' + b" " * 2_000_000, "application/json"),
    "a number": index(9),
    "not UTF-8": answer(b'{"info": {"version": "9.\xff"}}', "application/json"),
    "escapes": index("9.0\x1b[2J"),
    "words": index("9.0 curl x | sh"),
    "a line more": index("9.0\n"),
    "other digits": index("9.\u0663"),
    "one to try out": index("9.0rc1"),
    "an endless number": index("9" * 5_000 + ".0"),
    "taken back": index("9.0", yanked=True),
    "an error": answer('{"info": {"version": "9.0"}}', "application/json", status="500 Oh no"),
    "elsewhere": redirect("http://%SITE%/other"),
    "no HTTP": b"9.0\r\n\r\n",
}


@pytest.mark.parametrize("page", GARBAGE.values(), ids=GARBAGE)
async def test_of_garbage_nothing_is_believed_and_it_is_not_asked_again_that_day(
    tmp_path: Path, page: bytes
) -> None:
    assert await told(tmp_path, page) == ""
    assert json.loads((tmp_path / FILE).read_bytes()) == {"asked_at": NOW, "version": ""}
    assert await told(tmp_path, index("9.0"), asks=0) == ""


async def test_it_is_asked_once_a_day_and_what_is_known_outlives_an_error(tmp_path: Path) -> None:
    assert "9.0" in await told(tmp_path, index("9.0"))
    assert "9.0" in await told(tmp_path, index("9.1"), asks=0, now=NOW + EVERY_S - 1)
    assert "9.0" in await told(tmp_path, GARBAGE["an error"], now=NOW + EVERY_S)
    assert "9.2" in await told(tmp_path, index("9.2"), now=NOW + 2 * EVERY_S)
    assert "9.3" in await told(tmp_path, index("9.3"), now=NOW), "the clock was set back"
    assert known_notice(tmp_path, own="9.3") == ""


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\n\r\n", b'{"info": ')])
async def test_an_index_that_hangs_is_left_and_not_asked_again_that_day(
    tmp_path: Path, pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the deadline ends it.
    monkeypatch.setattr(web_addresses, "SILENCE_S", 1e6)

    def page() -> Iterator[bytes]:
        yield from pieces

    async with site({"/json": page()}, holds=True) as here:
        for _ in range(2):
            await look_up(tmp_path, now=NOW, url=here.at("/json"), own="0.1.0", deadline_s=0.5)
        await here.left.wait()
        assert len(here.asked) == 1
    assert known_notice(tmp_path, own="0.1.0") == ""


async def test_the_request_says_the_name_and_the_version_and_nothing_else(tmp_path: Path) -> None:
    async with site({"/json": index("9.0")}) as here:
        await look_up(tmp_path, now=NOW, url=here.at("/json"), own="0.1.0", deadline_s=DEADLINE_S)
        lines = here.asked[0].strip().lower().split("\r\n")
        assert lines[0] == "get /json http/1.1"
        assert sorted(lines[1:]) == [
            "accept-encoding: identity",
            "accept: application/json",
            "connection: close",
            f"host: {here.host}",
            "user-agent: midstream/0.1.0",
        ]
    assert INDEX.startswith("https://")


async def test_a_name_that_leads_to_this_machine_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolved(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(web_addresses, "resolved", resolved)
    async with site({"/json": index("9.0")}) as here:
        url = f"http://index.example:{here.port}/json"
        await look_up(tmp_path, now=NOW, url=url, own="0.1.0", deadline_s=DEADLINE_S)
        assert here.asked == []


async def test_where_nothing_can_be_kept_nothing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert await told(tmp_path / "state", index("9.0"), asks=0) == ""


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "{",
        "[]",
        '{"asked_at": 1, "version": "9.0\\u001b[2J"}',
        '{"asked_at": 1, "version": "9.0", "more": 1}',
        '{"asked_at": "1", "version": "9.0"}',
        '{"asked_at": 1, "version": "9.0"}' + " " * 1_000,
    ],
)
async def test_a_file_that_is_not_ours_says_nothing_and_gives_way(
    tmp_path: Path, kept: str
) -> None:
    (tmp_path / FILE).write_text(kept)

    assert known_notice(tmp_path, own="0.1.0") == ""
    assert "9.0" in await told(tmp_path, index("9.0"))


def test_a_workspace_cannot_have_it_looked_up() -> None:
    text = '{"updateNotice": true}'
    assert read_settings(text, file="a.json") == ({"updateNotice": "true"}, ())

    found, problems = read_settings(text, file="a.json", is_workspace=True)
    assert found == {}
    assert "a workspace may not have newer versions looked up" in str(problems[0])
