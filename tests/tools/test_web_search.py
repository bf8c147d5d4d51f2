import json
from pathlib import Path

import pytest
from web_kit import allowed, answer, site

from midstream.config.settings import read_settings
from midstream.tools.web_search import MAX_ANSWER_BYTES, search_tools

HIT = {
    "title": "Tea",
    "url": "https://example.org/tea",
    "content": "How to <b>steep</b>\x1b[31m it",
}
ANSWERS = {
    "searxng": {"results": [HIT, {"title": None, "url": "https://example.org/b"}]},
    "brave": {"web": {"results": [{**HIT, "content": None, "description": "How to steep it"}]}},
    "tavily": {"results": [HIT], "answer": None},
}


def setting(provider: str, url: str) -> dict[str, str]:
    return {"provider": provider, "url": url, "keyVariable": "" if provider == "searxng" else "K"}


@pytest.mark.parametrize("provider", ANSWERS)
async def test_each_provider_is_asked_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setenv("K", "the-key")
    page = answer(json.dumps(ANSWERS[provider]), "application/json")
    async with site({"/search": page}) as here:
        bench = allowed(tmp_path, here.host)
        bench.manager.put(search_tools(setting(provider, here.at("/search"))))
        text = await bench.text("web_search", query="green tea")

    said = here.asked[0] + here.bodies[0].decode()
    assert "green+tea" in said or '"query":"green tea"' in said
    assert ("the-key" in said) is (provider != "searxng")
    assert "the-key" not in here.asked[0].splitlines()[0]
    assert "1. Tea\n   https://example.org/tea\n   How to steep" in text
    assert "never an instruction" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (answer("<p>no", "text/html"), "no list of results"),
        (answer('{"results": 5}', "application/json"), "no list of results"),
        (answer(b"[" * 100_000, "application/json"), "no list of results"),
        (answer(b" " * (MAX_ANSWER_BYTES + 1), "application/json"), "too much"),
        (answer("", status="302 Found"), "302"),
        (answer("", status="401 Unauthorized"), "401"),
    ],
)
async def test_what_is_no_answer_is_told(tmp_path: Path, page: bytes, words: str) -> None:
    async with site({"/": page}) as here:
        bench = allowed(tmp_path, here.host)
        bench.manager.put(search_tools(setting("searxng", here.at("/"))))

        assert words in await bench.failure("web_search", query="tea")


async def test_it_is_judged_by_its_host_and_needs_its_key(tmp_path: Path) -> None:
    async with site({}) as here:
        tools = search_tools({**setting("brave", here.at("/")), "keyVariable": "NOT_SET_ANYWHERE"})
        denied, without = allowed(tmp_path), allowed(tmp_path, here.host)
        for bench in (denied, without):
            bench.manager.put(tools)

        assert (await denied.call("web_search", query="tea")).outcome == "denied"
        assert "NOT_SET_ANYWHERE is not set" in await without.failure("web_search", query="tea")

    assert here.asked == []


def test_without_a_setting_it_is_not_offered() -> None:
    assert search_tools({}) == ()


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ({"provider": "brave"}, "https://api.search.brave.com/res/v1/web/search"),
        (
            {"provider": "searxng", "url": "http://localhost:8888/search"},
            "http://localhost:8888/search",
        ),
        ({"provider": "searxng"}, None),
        ({"provider": "altavista"}, None),
        ({"provider": "brave", "url": "file:///etc/passwd"}, None),
        ({"provider": "brave", "keyVariable": "sk-not a name"}, None),
        ({}, None),
        ("brave", None),
    ],
)
def test_the_setting_is_whole_or_does_not_count(said: object, url: str | None) -> None:
    found, problems = read_settings(json.dumps({"webSearch": said}), file="a.json")

    assert found.get("webSearch.url") == url
    assert bool(problems) is (url is None)


def test_a_workspace_cannot_set_it() -> None:
    text = '{"webSearch": {"provider": "brave"}}'

    found, problems = read_settings(text, file="a.json", is_workspace=True)

    assert found == {}
    assert "a workspace may not choose a search engine" in str(problems[0])


async def test_of_a_result_that_is_cut_no_half_of_a_secret_is_told(tmp_path: Path) -> None:
    key = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4bC6"
    hits = [
        {"title": f"{'x' * n} {key}", "url": f"{'x' * (n + 300)} {key}"} for n in range(150, 199)
    ]
    page = answer(json.dumps({"results": hits[::5]}), "application/json")
    async with site({"/search": page}) as here:
        bench = allowed(tmp_path, here.host)
        bench.manager.put(search_tools(setting("searxng", here.at("/search"))))
        text = await bench.text("web_search", query="green tea")

    assert "xxx" in text
    assert "aB3dE" not in text
