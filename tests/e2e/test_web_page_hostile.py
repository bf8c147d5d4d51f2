"""What a model, a tool, a file or a question may write does nothing to the page; it is only read."""

import json
import random
from pathlib import Path

import pytest
from browser_page_kit import DESK, HOLDS_WIDTH, PHONE, begin, decide, page_of, say
from support.openai_server import Call, Gate, OpenAIServer, Reply

from midstream.safety.sanitize import sanitized

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

HOSTILE = (
    '<script>window.hacked = 1; alert(1)</script><img src=x onerror="alert(2)">'
    "<style>body{display:none}</style><svg onload=alert(3)><iframe src=//evil.example></iframe>"
    "</textarea></title>{{constructor}} javascript:alert(4) http://evil.example/\u202egpj.exe "
    "https://good.example@evil.example/ \x1b]0;x\x07 \u2066 \u200b "
)
MARKS = (
    f"{HOSTILE}\n\n[click](javascript:alert(5)) ![x](http://evil.example/x.png)\n\n"
    f'```js" onclick=alert(6)\n{HOSTILE}\n```\n\n# {HOSTILE}\n\n- {HOSTILE}\n\n{"W" * 9000}\n\n'
    f"`{HOSTILE.replace('`', '')}` **{'<b>x' * 20}** see https://docs.example/a?b=c."
)
SCHEMA = {
    "type": "object",
    "title": HOSTILE,
    "required": ["__proto__", HOSTILE],
    "properties": {
        "__proto__": {"type": "string", "description": HOSTILE},
        HOSTILE: {"type": "string", "enum": [HOSTILE, "W" * 500], "title": HOSTILE},
        "style": {"type": "array", "items": {"enum": ['" onfocus=alert(7) autofocus="']}},
    },
}
ASKS = Call(name="request_users_input", arguments={"question": MARKS, "schema": SCHEMA})
CHOOSES = Call(
    name="request_users_input", arguments={"question": HOSTILE, "choices": [HOSTILE, "W" * 400]}
)
WRITES = Call(
    name="write_file",
    arguments={"path": '"><img src=x onerror=alert(8)>.py', "content": f"# {MARKS}\n"},
)
NOTES = Call(name="todo", arguments={"items": [{"text": HOSTILE[:190]}]})
NOBODY = Call(name="<img src=x onerror=alert(9)>", arguments={HOSTILE: HOSTILE})


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_what_others_write_is_only_read(tmp_path: Path, width: int) -> None:
    script = (
        Reply(text=MARKS, thinking=MARKS, calls=(NOTES, NOBODY)),
        Reply(text="", calls=(CHOOSES,)),
        Reply(text="", calls=(ASKS,)),
        Reply(text=HOSTILE, calls=(WRITES,)),
        Reply(text="That was all."),
    )
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server, width=width) as (page, _),
    ):
        page.value(
            "window.onerror = null; document.addEventListener('securitypolicyviolation',"
            " (event) => console.log('refused', event.violatedDirective, event.blockedURI))"
        )
        begin(page, HOSTILE)
        page.until("document.querySelector('.card.question')")
        assert page.value(HOLDS_WIDTH)
        page.click(".card label", "WWW")
        page.click(".card button.main", "Answer")
        page.until("document.querySelectorAll('.card.question input[type=checkbox]').length")
        assert page.value(HOLDS_WIDTH)
        say(page, "#2 none of it")
        page.until("document.querySelector('#waiting button')")  # it fits no such form
        page.shows("none of it", "#waiting")
        page.click("#waiting button", "Drop")
        page.click("#halt")
        page.until("document.querySelector('#halt').hidden")
        say(page, "write it then")
        decide(page, "Yes, once")
        page.shows("That was all.", "#items")
        page.value("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.until("document.querySelector('#items .diff .plus')")
        if width == PHONE:
            page.click("#details-open")
        page.click("#details #todo li")
        assert page.value(HOLDS_WIDTH)

        assert not page.dialogs
        assert not page.said
        assert page.value("window.hacked === undefined")
        own = "http://127.0.0.1"
        assert [url for url in page.requests if not url.startswith((own, "about:"))] == []
        made = "[...document.querySelectorAll('#items, #cards, #details, #runs')]"
        assert not page.value(
            f"{made}.some((part) => part.querySelector('script, style, img, iframe, [style],"
            " [onerror], [onload], [onfocus], [onclick], svg [onload]'))"
        )
        links = page.value(
            "[...document.querySelectorAll('#items a, #cards a')].map((a) =>"
            " [a.href, a.textContent, a.rel])"
        )
        assert {tuple(link) for link in links} == {
            (
                "https://docs.example/a?b=c",
                "https://docs.example/a?b=c",
                "noopener noreferrer",
            ),
            (
                "http://evil.example/x.png",
                "http://evil.example/x.png",
                "noopener noreferrer",
            ),
        }
        for sign in ("\u202e", "\u2066", "\u200b", "\x1b"):
            assert sign not in page.text()
        assert "\\u202egpj" in page.text("#items")


def test_the_page_makes_visible_what_the_terminal_does(tmp_path: Path) -> None:
    chance = random.Random(7)
    suspects = [
        *(chr(code) for code in (0, 9, 10, 13, 27, 127, 0x9B, 0xAD, 0x34F, 0x61C, 0x200B, 0x200C)),
        *("\u200d", "\u202e", "\u2066", "\ufe0f", "\ufe0e", "\u0301", "\U000e0041", "\U000e0100"),
        *("\u115f", "\u180b", "\ufeff", "\u3164", "\u2028", "\U0001d173"),
        *("\u0915", "\u0627", "\U0001f469", "\U0001f4bb", "#", "1", "\u4e00", "a", " ", "\r\n"),
    ]
    texts = ["".join(chance.choices(suspects, k=chance.randint(1, 14))) for _ in range(2000)]
    texts += [chr(code) for code in range(0x3100) if not 0xD800 <= code < 0xE000]
    with (
        OpenAIServer(default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server) as (page, _),
    ):
        told = page.value(
            "import('/static/text.js').then(({visible}) => JSON.parse("
            f"{json.dumps(json.dumps(texts))}).map(visible))"
        )
    wrong = [
        (text, sanitized(text), found)
        for text, found in zip(texts, told, strict=True)
        if sanitized(text) != found
    ]
    assert wrong == []


def test_who_reads_above_is_left_there(tmp_path: Path) -> None:
    gate = Gate()
    lines = "\n\n".join(f"Line {number} of a long story." for number in range(60))
    script = (
        Reply(text=lines),
        Reply(chunks=("It goes on ", "and on\n\n" * 40, "the end"), gate=gate, gate_after=1),
    )
    with (
        OpenAIServer(script, default=Reply(text="Yes.")) as server,
        page_of(tmp_path, server) as (page, _),
    ):
        begin(page, "Tell")
        page.shows("Line 59", "#items")
        say(page, "More")
        gate.reached.wait()
        page.shows("It goes on", ".live")
        box = "document.querySelector('#conversation')"
        at_end = f"{box}.scrollHeight - {box}.scrollTop - {box}.clientHeight < 32"
        page.until(at_end)
        page.value(f"{box}.scrollTop = 200")
        page.until(f"{box}.scrollTop === 200")
        gate.open()
        page.shows("the end", "#items")
        page.until("!document.querySelector('#new-below').hidden")
        assert page.value(f"{box}.scrollTop") == 200
        page.click("#new-below")
        page.until(at_end)
        page.until("document.querySelector('#new-below').hidden")

        # Who says something sees it, and what comes of it.
        page.value(f"{box}.scrollTop = 200")
        page.until(f"{box}.scrollTop === 200")
        say(page, "And then?")
        page.shows("And then?", "#items")
        page.until(at_end)
        page.until("document.querySelector('#halt').hidden")

        # So it does where a card takes room in the very moment in which the page goes there.
        page.value(f"{box}.scrollTop -= 20")
        page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        page.value(
            f"{box}.scrollTop += 20, document.querySelector('#line-form').style.paddingTop = '300px'"
        )
        page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        page.until(at_end)
