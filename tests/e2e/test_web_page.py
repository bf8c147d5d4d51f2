"""The page of `midstream web` as a person uses it: at a desk, on a phone, by keys, cut off and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from browser_page_kit import (
    DESK,
    HOLDS_WIDTH,
    PHONE,
    begin,
    decide,
    page_of,
    say,
    serving,
    take_line,
)
from pipes_kit import checkpointed, workspace_of
from support.chromium import Chromium
from support.openai_server import Call, Gate, OpenAIServer, Reply

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

FORM = {
    "type": "object",
    "required": ["kind", "depth"],
    "properties": {
        "kind": {"type": "string", "enum": ["short", "long"]},
        "depth": {"type": "integer", "minimum": 1, "maximum": 5},
        "topics": {"type": "array", "items": {"enum": ["speed", "safety"]}},
        "who": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}}},
    },
}
ASKS = Call(
    name="request_users_input", arguments={"question": "How shall it look?", "schema": FORM}
)
WRITES = Call(
    name="write_file", arguments={"path": "app.py", "content": "def f(x):\n    return x or 0\n"}
)
WORDS = "document.querySelector('#items').innerText"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_whole_session(tmp_path: Path, width: int) -> None:
    gate = Gate()
    script = (
        Reply(chunks=("I would rewrite ", "the whole ", "modu", "le."), gate=gate, gate_after=3),
        Reply(calls=(ASKS,)),
        Reply(text="I write it.", calls=(WRITES,)),
        Reply(text="It is **shorter** now."),
    )
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server, width=width) as (page, _),
    ):
        begin(page, "Look at app.py, please.")
        gate.reached.wait()
        page.shows("the whole modu", ".live")

        # Words in the middle of a word: what stood there is kept, marked, and above them.
        take_line(page)
        page.type("only f, please")
        page.until("document.querySelector('#will').textContent.includes('Enter interrupts')")
        page.press("Enter")
        page.until("document.querySelector('article.agent .cut')")
        text = str(page.value(WORDS))
        assert text.index("the whole modu") < text.index("interrupted") < text.index("only f")
        assert "module" not in text
        gate.open()

        # A question is a form; what does not fit is said beside the field, and nothing typed is lost.
        page.until("document.querySelector('.card.question')")
        page.click(".card label", "long")
        page.click(".card .field input[inputmode]")
        page.type("9")
        page.click(".card label", "safety")
        page.click(".card button.main", "Answer")
        page.until("document.querySelector('.card .wrong .problem')?.textContent.includes('5')")
        assert page.value("document.activeElement.value") == "9"
        page.until("!document.querySelector('.card button:disabled')")
        page.value("document.activeElement.select()")
        page.type("2")
        page.click(".card button.main", "Answer")

        # An approval shows what would be done, and is decided afresh.
        page.until("document.querySelector('.card.approval')")
        card = page.text(".card.approval")
        assert "return x or 0" in card
        assert "return x if x else 0" in card
        assert card.count("#2 ") == 1
        grants = card.partition("A yes for this run allows: ")[2]
        assert grants.splitlines()[0] == "write: app.py"
        assert page.value(HOLDS_WIDTH)
        decide(page, "Yes, once")
        page.shows("It is shorter now.", "#items")
        assert (workspace_of(tmp_path) / "app.py").read_text().endswith("return x or 0\n")
        page.until("document.querySelector('#halt').hidden")  # nothing moves any more
        page.click("#items details.file summary")
        page.until("document.querySelector('#items .diff .plus')")
        answers = [m for m in server.requests[-1]["messages"] if m["role"] == "tool"]
        assert json.loads(answers[0]["content"]) == {
            "kind": "long",
            "depth": 2,
            "topics": ["safety"],
        }

        # Back in time by the slider, and on from there.
        page.click("#time")
        last = int(str(page.value("document.querySelector('#moment').value")))
        while "only f" in str(page.value(WORDS)):
            page.click("#earlier")
        assert "Look at app.py" in str(page.value(WORDS))
        assert "It is shorter" not in str(page.value(WORDS))
        page.until("document.querySelector('#run-doing').textContent.startsWith('Then: ')")
        page.click("#now")
        page.shows("waiting for your words", "#run-doing")
        assert "It is shorter" in str(page.value(WORDS))
        while "only f" in str(page.value(WORDS)):
            page.click("#earlier")
        first = str(page.value("location.hash"))
        page.click("#fork")
        page.click("#sure-yes")
        page.until(f"location.hash !== {first!r}")
        page.until("document.querySelector('#items').innerText.includes('Look at app.py')")
        assert "It is shorter" not in page.text("#items")
        assert last > 10
        assert page.value(HOLDS_WIDTH)
        assert not page.said
        assert all(url.startswith(("http://127.0.0.1", "about:")) for url in page.requests)


@pytest.mark.both_journals
def test_the_page_comes_back_after_a_kill_and_sends_what_waited_once(tmp_path: Path) -> None:
    gate = Gate()
    script = (Reply(chunks=("Before the ", "crash ", "it said"), gate=gate, gate_after=2),)
    with (
        OpenAIServer(script, default=Reply(text="Here again.")) as server,
        page_of(tmp_path, server) as (page, served),
    ):
        begin(page, "Begin")
        gate.reached.wait()
        page.shows("Before the crash", ".live")
        checkpointed(tmp_path, "Before the crash")
        served.kill()
        # What it had said by then stands there before anybody goes on with it, also on a new page.
        served.start()
        page.reload()
        page.shows("Before the crash", ".live")
        served.kill()
        page.shows("Cut off from midstream", "#connection")
        say(page, "this waits")
        page.shows("Not sent yet", "#waiting")
        page.type("half a li")

        gate.open()
        served.start()
        page.shows("Here again.", "#items")
        page.until("!document.querySelector('#waiting').textContent")
        said = "[...document.querySelectorAll('article.user .words')].map((node) => node.innerText)"
        assert page.value(said) == ["Begin", "this waits"]
        assert page.text("#items").count("Before the crash") == 1
        assert page.value("document.querySelectorAll('.cut').length") == 1
        assert page.value("document.querySelector('#line').value") == "half a li"

        # The same from the journal alone: nothing twice, nothing gone, the draft is there.
        page.reload()
        page.shows("Here again.", "#items")
        assert page.value(said) == ["Begin", "this waits"]
        assert page.text("#items").count("Before the crash") == 1
        assert page.value("document.querySelector('#line').value") == "half a li"
        heard = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]
        assert sum("this waits" in str(each) for each in heard) == 1


def test_what_was_cut_stands_above_the_words_that_cut_it_each_time(tmp_path: Path) -> None:
    gates = [Gate() for _ in range(4)]
    script = [
        Reply(chunks=(f"reply {number} ", "is never ", "whole"), gate=gate, gate_after=2)
        for number, gate in enumerate(gates)
    ]
    with (
        OpenAIServer(script, default=Reply(text="The last one.")) as server,
        page_of(tmp_path, server) as (page, _),
    ):
        begin(page, "words 0")
        for number, gate in enumerate(gates):
            gate.reached.wait()
            page.shows(f"reply {number} is never", ".live")
            take_line(page)
            page.type(f"words {number + 1}")
            page.click(f"#verbs [data-policy={'steer' if number % 2 else 'interrupt'}]")
        page.shows("The last one.", "#items")
        said = (
            "[...document.querySelectorAll('#items .words')].map((node) => node.innerText.trim())"
        )
        in_order = [
            each for number in range(4) for each in (f"words {number}", f"reply {number} is never")
        ]
        assert page.value(said) == [*in_order, "words 4", "The last one."]
        page.reload()
        page.shows("The last one.", "#items")
        assert page.value(said) == [*in_order, "words 4", "The last one."]
        for gate in gates:
            gate.open()


def test_words_that_wait_stand_below_what_is_said_until_their_turn(tmp_path: Path) -> None:
    gate = Gate()
    script = (
        Reply(chunks=("One ", "moment."), calls=(Call(name="get_time"),), gate=gate, gate_after=1),
        Reply(text="It is late."),
    )
    with (
        OpenAIServer(script, default=Reply(text="The last one.")) as server,
        page_of(tmp_path, server) as (page, _),
    ):
        begin(page, "words 0")
        gate.reached.wait()
        page.shows("One", ".live")
        take_line(page)
        page.type("words 1")
        page.click("#verbs [data-policy=queue]")
        page.shows("words 1", "#items")
        gate.open()
        said = (
            "[...document.querySelectorAll('article .words')].map((node) => node.innerText.trim())"
        )
        in_order = ["words 0", "One moment.", "It is late.", "words 1", "The last one."]
        page.shows("The last one.", "#items")
        assert page.value(said) == in_order
        page.reload()
        page.shows("The last one.", "#items")
        assert page.value(said) == in_order


def test_two_pages_share_what_waits_and_each_keeps_the_line_begun_there(tmp_path: Path) -> None:
    with (
        OpenAIServer((), default=Reply(text="Yes.")) as server,
        serving(tmp_path, server) as served,
        Chromium(tmp_path / "browser") as browser,
    ):
        first = browser.page()
        first.open(served.address)
        first.until("document.body.className")
        begin(first, "Begin")
        first.shows("Yes.", "#items")
        second = browser.page()
        second.open(str(first.value("location.href")))
        second.shows("Yes.", "#items")
        served.kill()
        second.shows("Cut off from midstream", "#connection")
        first.ask("Page.bringToFront")
        say(first, "this waits")
        first.shows("this waits", "#waiting")
        second.shows("this waits", "#waiting")
        take_line(first)
        first.type("half a li")
        second.ask("Page.bringToFront")
        say(second, "so does this")
        served.start()
        second.shows("so does this", "#items")
        for page in (first, second):
            page.until("!document.querySelector('#waiting').textContent")
        first.ask("Page.bringToFront")
        first.reload()
        first.shows("so does this", "#items")
        assert first.value("document.querySelector('#line').value") == "half a li"
        said = "[...document.querySelectorAll('article.user .words')].map((node) => node.innerText)"
        assert first.value(said) == ["Begin", "this waits", "so does this"]


def test_all_of_it_can_be_done_by_keys_and_heard(tmp_path: Path) -> None:
    gate = Gate()
    script = (
        Reply(chunks=("A first line\n", "and half of ", "another"), gate=gate, gate_after=2),
        Reply(text="", calls=(WRITES,)),
        Reply(text="Done."),
    )
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server) as (
            page,
            _,
        ),
    ):
        page.press("n")
        page.until("document.activeElement.id === 'start-input'")
        page.press("Tab", shift=True)
        while "dude" not in page.value("document.activeElement.closest('label').innerText"):
            page.press("ArrowDown")
        page.press("Tab")
        page.type("Mend it")
        page.press("Tab")
        page.press("Enter")
        page.until("document.activeElement.id === 'line'")
        gate.reached.wait()
        # A screen reader is told whole lines, not each token.
        page.until("document.querySelector('#said').textContent.includes('A first line')")
        assert "and half" not in page.value("document.querySelector('#said').textContent")
        page.press("Escape")
        page.shows("stopped here", ".cut")
        page.until("document.querySelector('#said').textContent.includes('and half of')")
        gate.open()

        page.type("go on then")
        page.press("Enter")
        page.until("document.querySelector('.card.approval')")
        # Nothing takes the focus away from the line, and a key that comes at once decides nothing.
        assert page.value("document.activeElement.id") == "line"
        page.value("new Promise((done) => setTimeout(done, 450))")
        page.press("Tab", shift=True)
        assert page.value("document.activeElement.closest('.card') !== null")
        while page.value("document.activeElement.textContent") != "Yes, once":
            page.press("Tab", shift=True)
        style = "getComputedStyle(document.activeElement)"
        assert page.value(f"{style}.outlineStyle") == "solid"
        page.press("Space")
        page.shows("Done.", "#items")

        page.click("#conversation")
        page.press("?")
        page.shows("halt what is being done", "#keys")
        page.press("Escape")
        names = page.names()
        roles = {role for role, _ in names}
        assert {"main", "navigation", "complementary", "log", "form"} <= roles
        unnamed = [
            role
            for role, name in names
            if role in ("button", "textbox", "link", "radio", "checkbox", "slider") and not name
        ]
        assert not unnamed
        assert ("textbox", "Your words") in names
        assert not page.said


def test_what_comes_at_once_decides_nothing(tmp_path: Path) -> None:
    script = (Reply(text="", calls=(WRITES,)), Reply(text="It is not written."))
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server) as (
            page,
            _,
        ),
    ):
        # A finger that is on its way when the card comes up, and a script of somebody's.
        page.value(
            "void new MutationObserver(() => document.querySelectorAll('.card.approval button')"
            ".forEach((each) => each.click())).observe(document.querySelector('#cards'),"
            " {childList: true})"
        )
        begin(page, "Mend it")
        page.shows("too soon", ".card.approval")
        for kind in ("mousePressed", "mouseReleased"):
            page.value("dispatchEvent(new Event('resize'))")  # it has just been drawn
            page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            at = page.value(
                "(({x, y}) => ({x: x + 9, y: y + 9}))"
                "(document.querySelector('.card.approval button').getBoundingClientRect())"
            )
            page.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        assert page.value("document.querySelector('.card.approval') !== null")
        assert "if x else 0" in (workspace_of(tmp_path) / "app.py").read_text()
        decide(page, "No")
        page.shows("It is not written.", "#items")
        assert "if x else 0" in (workspace_of(tmp_path) / "app.py").read_text()


MARKED = """\
Of *all* __init__ files ~~two~~ **`one`**, 2*3*4:

| name | `size` |
|------|-----:|
| a \\| b | 1 |
| lone |

> said
> - before

---

1. first
   ```sh
   make  all
   ```
- [x] done
"""


def test_what_a_model_writes_is_drawn_as_it_was_meant(tmp_path: Path) -> None:
    gate = Gate()
    begun, _, rest = MARKED.partition("-----:")
    script = (Reply(chunks=(f"{begun}-----:", f"{rest}The end."), gate=gate, gate_after=1),)
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server) as (page, _),
    ):
        begin(page, "Tell")
        gate.reached.wait()
        page.until("document.querySelector('.live table th')")
        gate.open()
        page.shows("The end.", "#items")

        def texts(selector: str) -> object:
            found = f"[...document.querySelectorAll('#items .agent > .words {selector}')]"
            return page.value(f"{found}.map((each) => each.textContent)")

        assert texts("> p") == ["Of all __init__ files two one, 2*3*4:"]
        assert [texts(tag) for tag in ("em", "s", "strong > code")] == [["all"], ["two"], ["one"]]
        assert texts("th") == ["name", "size"]
        assert texts("td") == ["a | b", "1", "lone"]
        assert texts("td.right") == ["1"]
        assert texts("blockquote > p") == ["said"]
        assert texts("blockquote li") == ["•before"]
        assert texts("hr") == [""]
        assert texts("pre") == ["make  all"]
        assert texts("> ul > li") == ["1.first", "☑done\nThe end."]
        assert page.value(HOLDS_WIDTH)

        # Nothing is hidden, however little there is of it yet.
        def drawn(of: str) -> Any:
            return page.value(
                "import('/static/markdown.js').then(({draw}) =>"
                f" {of}.map((text) => draw(document.createElement('div'), text).textContent))"
            )

        shown = {
            "# ": "#",
            "# C#": "C#",
            "## both ##": "both",
            "```ls``` lists": "``ls`` lists",
            "```\nls\n```\n": "ls",
            "```\nls\n```and more": "ls\n```and more",
        }
        assert drawn(json.dumps(list(shown))) == list(shown.values())
        assert drawn("[5001, 20000].map((most) => '# a\\n'.repeat(most))") == [
            "# a\n" * most for most in (5001, 20_000)
        ]
        # Whoever wants a page to stand still writes what takes the square of its length.
        hostile = (("# a", " "), ("# a", "#"), ("a|b\n", " "), ("a|b\n-", " "), ("http://a", "!"))
        whole = [f"{begun}{more * 200_000}x|" for begun, more in hostile]
        assert all(drawn(json.dumps(whole)))

        # What was said on another day has the day, in the list of runs, too.
        page.until("document.querySelector('#run-list time')")
        now, then = page.value(
            "import('/static/text.js').then(({clock}) =>"
            " [Date.now() / 1000, 86400 * 10.5].map((at) => clock(at).textContent))"
        )
        assert "11" in then
        assert len(now) < len(then)

        # Where the window gets narrow, details do not come to lie over what is read.
        assert page.value("!document.querySelector('#details').hidden")
        page.resize(PHONE)
        page.until("document.querySelector('#details').hidden")
