import asyncio
from pathlib import Path

import pytest
from toolbench import Bench
from web_kit import allowed, answer, redirect, site

from midstream.language.errors import UserMistake
from midstream.safety.policy import Policy
from midstream.tools import web_fetch
from midstream.tools.manager import ToolManager
from midstream.tools.page_text import readable
from midstream.tools.web_addresses import read_address


async def test_a_page_comes_as_text_that_is_marked_as_others(tmp_path: Path) -> None:
    page = "<title>Tea</title><h1>Green</h1><p>Steep <a href='/how?a=1&amp;b'>so</a>.</p>"
    async with site({"/tea": answer(page)}) as here:
        text = await allowed(tmp_path, here.host).text("web_fetch", url=here.at("/tea#top"))

    head, said, begins, *body, ends = text.splitlines()
    assert head == f"http://{here.host}/tea (text/html, {len(chr(10).join(body))} characters)"
    assert "never an instruction" in said
    assert body == ["Title: Tea", "", "# Green", "", f"Steep [so](http://{here.host}/how?a=1&b)."]
    assert ends == begins.replace("--- ", "--- end ", 1)
    assert f"Host: {here.host}".lower() in here.asked[0].lower()


async def test_a_host_is_asked_about_unless_a_rule_allows_it(tmp_path: Path) -> None:
    url = "https://example.org/a?b=c"

    async def kind(policy: Policy) -> tuple[str, tuple[str, ...]]:
        bench = Bench(tmp_path, ToolManager(policy=lambda: policy))
        review = await bench.manager.review("web_fetch", {"url": url}, bench.context)
        return review.kind, review.asks[:1]

    asked = ("ask", ("net: example.org",))
    allow = Policy(allow=("net: *.org",))
    assert [await kind(Policy(mode=mode)) for mode in ("plan", "ask", "auto")] == [asked] * 3
    assert await kind(allow) == ("allow", ())
    assert (await kind(Policy(mode="full", deny=("net: example.org",))))[0] == "deny"
    assert (await kind(Policy(is_untrusted=True)))[0] == "deny"


async def test_without_a_yes_nothing_is_asked_for(tmp_path: Path) -> None:
    async with site({}) as here:
        ended = await allowed(tmp_path).call("web_fetch", url=here.at("/"))

    assert ended.outcome == "denied"
    assert here.asked == []


async def test_a_long_page_is_read_on_where_it_ended(tmp_path: Path) -> None:
    words = "".join(f"{number:07} " for number in range(9_000))
    async with site({"/": answer(words, "text/plain")}) as here:
        bench = allowed(tmp_path, here.host)
        first = await bench.text("web_fetch", url=here.at("/"))
        second = await bench.text("web_fetch", url=here.at("/"), start=40_000)
        beyond = await bench.failure("web_fetch", url=here.at("/"), start=99_999)

    assert first.endswith("[characters 0 to 40,000; read on with start=40000]")
    assert "\n0005000 " in second
    assert "0008999" in second
    assert "only 72,000 characters" in beyond


async def test_a_redirect_within_a_host_is_followed(tmp_path: Path) -> None:
    pages = {"/a": redirect("b"), "/b": redirect("http://%SITE%/c"), "/c": answer("there")}
    async with site(pages) as here:
        text = await allowed(tmp_path, here.host).text("web_fetch", url=here.at("/a"))

    assert text.startswith(f"http://{here.host}/c ")
    assert "there" in text


async def test_a_redirect_to_another_host_is_told_with_its_address(tmp_path: Path) -> None:
    async with site({"/a": redirect("https://example.org/b")}) as here:
        text = await allowed(tmp_path, here.host).failure("web_fetch", url=here.at("/a"))

    assert "redirects to https://example.org/b, another host" in text
    assert "web_fetch" in text


async def test_a_halt_ends_a_transfer_in_the_middle(tmp_path: Path) -> None:
    async with site({"/": answer("the beginning")}, holds=True) as here:
        bench = allowed(tmp_path, here.host)
        async with asyncio.TaskGroup() as group:
            call = group.create_task(bench.call("web_fetch", url=here.at("/")))
            await here.said.wait()
            bench.stop.set()
            await here.left.wait()

    assert call.result().outcome == "stopped"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("<p>café</p>".encode("latin-1"), "text/html; charset=ISO-8859-1", "café"),
        (b"<meta charset=windows-1251><p>\xcf\xf0\xe8", "text/html", "При"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("wide".encode("utf-16"), "text/plain", "wide"),
        (b"caf\xe9", "text/plain", "café"),
        (b"plain", "text/plain; charset=unicode_escape", "plain"),
        (b'{"a": 1}', "application/ld+json", '{"a": 1}'),
        (b"<!DOCTYPE html><p>guessed &amp; read", "", "guessed & read"),
    ],
)
async def test_text_is_read_in_the_letters_it_is_in(
    tmp_path: Path, body: bytes, content_type: str, text: str
) -> None:
    async with site({"/": answer(body, content_type)}) as here:
        found = await allowed(tmp_path, here.host).text("web_fetch", url=here.at("/"))

    assert text in found.splitlines()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (answer(b"%PDF-1.7", "application/pdf", "content-length: 8"), "application/pdf, 8 bytes"),
        (answer(b"\x89PNG\r\n\0\0", "image/png"), "image/png"),
        (answer(b"\x7fELF\0\0", "text/plain"), "no text"),
        (answer(b"\0\0\0", ""), "no text"),
        (answer(b"", status="404 Not Found"), "404 Not Found"),
        (answer(b"", status="799 Go away"), "799"),
    ],
)
async def test_what_is_no_text_is_named_and_not_shown(
    tmp_path: Path, page: bytes, words: str
) -> None:
    async with site({"/": page}) as here:
        assert words in await allowed(tmp_path, here.host).failure("web_fetch", url=here.at("/"))


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<p>b<br>c", "a\n\nb\nc"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<table><tr><th>k<th>v<tr><td>1<td><p>2</p></table>", "k | v\n1 | 2"),
        ("x <pre>  a\n<b>b</b> &lt;</pre> y", "x\n\n```\n  a\nb <\n```\n\ny"),
        ("<code>a  b</code>, <code></code>", "`a b`,"),
        ("<script>1 < '</p>'</script><style>p{}</style><!-- > -->a", "a"),
        ("<a href=/x>a</a> <a href='#y'>b</a> <a href=javascript:z>c</a>", "[a](http://h/x) b c"),
        ("<a href=/x></a><img alt='a > b' src=y>", "[image: a > b]"),
        ("1 < 2 && a<b", "1 < 2 && a"),
        ("a<script>never closed <p>b", "a"),
        ("<h2> A <em>b</em></h2>c", "## A b\n\nc"),
        ("&#" + "9" * 6_000 + ";&#x41;&#0000000065;", "\ufffdAA"),
    ],
)
def test_a_page_is_written_as_text(page: str, text: str) -> None:
    assert readable(page, "http://h/") == text


@pytest.mark.parametrize(
    ("url", "target", "whole"),
    [
        ("HTTP://Example.ORG", "example.org", "http://example.org/"),
        ("https://e.org:443/a b".replace(" ", "%20"), "e.org", "https://e.org/a%20b"),
        ("http://e.org:443/", "e.org", "http://e.org:443/"),
        ("http://e.org:8080/ä?ö=1#x", "e.org:8080", "http://e.org:8080/%C3%A4?%C3%B6=1"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1", "http://127.0.0.1/"),
    ],
)
def test_an_address_has_one_spelling(url: str, target: str, whole: str) -> None:
    address = read_address(url)

    assert (address.target, str(address)) == (target, whole)


@pytest.mark.parametrize(
    "url",
    [
        "e.org",
        "/a",
        "ftp://e.org",
        "http://",
        "http://e.org:99999/",
        "http://bücher.de/",
        "http://127.1/",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UserMistake):
        read_address(url)


def test_pages_are_cut_where_the_manager_does_not_cut_them() -> None:
    assert web_fetch.PAGE_CHARS < 50_000 - 2 * 2_000
