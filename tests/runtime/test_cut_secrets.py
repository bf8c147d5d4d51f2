"""A text that is cut shows no half of a secret, wherever in it the secret stands."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from midstream.agents import turn
from midstream.core.notices import AnyNotice, BackgroundEnded
from midstream.language.names import Outcome
from midstream.models import provider_errors
from midstream.runtime import text_limits
from midstream.runtime.background import Background, Command
from midstream.safety.capability import Capability
from midstream.safety.policy import Policy, judged
from midstream.safety.redaction import Redactor
from midstream.system import diff, own_process
from midstream.system.piped_child import KEPT_WORDS, PipedChild
from midstream.system.supervisor import Child
from midstream.telemetry import content
from midstream.tools import validation, web_addresses
from midstream.tools.mcp.mcp_tools import outcome_of

PIECES = ["aB3dE5f", "G7hJ9kL", "1mN2pQ4", "rS6tU8v", "W0xY2zA", "4bC6dE8"]
KEY = "ghp_" + "".join(PIECES)[:36]
OURS = "correct-horse-battery-staple-otter"
redactor = Redactor({OURS: "deploy token"})


def reason(text: str) -> str:
    command = Capability(kind="shell", target=text)
    return judged([command], Policy()).reason


def described(text: str) -> str:
    told = content.Words(redactor).content({"x": [text]})
    return str(told["x"])


CUT: dict[str, tuple[Callable[[str], str], int]] = {
    "the name of a call that is written": (lambda t: text_limits.one_line(t, redactor), 400),
    "a name after blanks": (
        lambda t: text_limits.one_line(t.replace("x", " "), redactor),
        4 * text_limits.MAX_NAME,
    ),
    "an error": (lambda t: text_limits.short(t, redactor), 10_000),
    "an error after a long secret": (
        lambda t: text_limits.short(f"sk-ant-{'a1B2' * 3_000} {t[12_008:]}", redactor),
        2 * text_limits.MAX_ERROR,
    ),
    "the beginning of a log": (
        lambda t: text_limits.ends_redacted(t, redactor),
        text_limits.MAX_TEXT // 2,
    ),
    "a span's name": (content.Words(redactor).word, 2 * content.MAX_NAME),
    "a span's content": (described, content.MAX_PART),
    "a provider's words": (lambda t: provider_errors.shown(t, ()), provider_errors.SHOWN_CHARS),
    "the title of an agent's call": (lambda t: turn._cut(t, 300), 300),
    "a reason of the policy": (reason, 57),
    "a value that does not fit": (
        lambda t: validation.validate(t, {"type": "integer"}),
        validation.SHOWN_CHARS // 2,
    ),
    "an address": (web_addresses.shown, 57),
    "a change of a file": (
        lambda t: diff.file_diff("a", b"", t.encode()).diff,
        diff.MAX_TOLD_WIDTH,
    ),
    "a link of an MCP server": (
        lambda t: outcome_of({"content": [{"type": "resource_link", "uri": t}]}).text,
        1_000,
    ),
    "the beginning of a text": (lambda t: own_process.beginning(t, 500), 500),
}


@pytest.mark.parametrize("what", CUT)
def test_of_a_secret_that_is_cut_nothing_is_shown(what: str) -> None:
    shown, limit = CUT[what]
    for back in range(0, len(KEY) + 8, 3):
        text = f"{'x' * (limit - back - 1)} {KEY} {'y' * 30_000}"
        told = shown(text)
        assert not any(piece in told for piece in PIECES), (what, back, told[-300:])


@pytest.mark.parametrize("back", range(1, len(OURS)))
def test_of_a_value_of_ours_that_is_cut_nothing_is_shown(back: int) -> None:
    text = f"{' ' * (400 - back)}{OURS} and more"
    assert not set(text_limits.one_line(text, redactor).split()) - {"and", "more"}
    error = f"{'x' * (20_000 - back)}{OURS}"
    assert OURS[:1] not in text_limits.short(error, redactor)[:-3]


@pytest.mark.parametrize("back", range(0, len(KEY) + 8, 3))
def test_what_is_kept_of_an_end_begins_with_no_half_of_a_secret(back: int) -> None:
    half = text_limits.MAX_TEXT // 2
    text = f"{'x' * 600_000} {KEY} {'y' * (half - back)}"

    for told in (text_limits.ends_redacted(text, redactor), own_process.ending(text, half)):
        assert not any(piece in told for piece in PIECES)
        assert told.endswith("yyy")


class Silent:
    def text(self) -> str:
        return ""


@pytest.mark.parametrize("back", range(0, len(KEY) + 8, 3))
async def test_a_command_in_the_background_is_told_without_half_of_a_secret(back: int) -> None:
    heard: list[AnyNotice] = []
    background = Background(heard.append, redactor)

    async def work(command: Command) -> tuple[Outcome, str]:
        return "failed", f"{'x' * (1_999 - back)} {KEY} yyy"

    command = background.begin("task-1", f"{'x' * (199 - back)} {KEY} yyy", work, Silent())
    await command.changed.wait()

    [ended] = heard
    assert isinstance(ended, BackgroundEnded)
    assert ended.line.startswith("xxx")
    assert not any(piece in f"{ended.line} {ended.how}" for piece in PIECES)


@pytest.mark.parametrize("before", [500, KEPT_WORDS - 20, 3_000_000])
async def test_the_last_words_of_a_program_begin_with_no_half_of_a_secret(before: int) -> None:
    for after in range(KEPT_WORDS - len(KEY) - 4, KEPT_WORDS + 4, 5):
        child = PipedChild(cast("Child", None))
        child._err = asyncio.StreamReader()
        child._err.feed_data(f"{'x' * before} {KEY} {'y' * after}".encode())
        child._err.feed_eof()
        await child.keep_last_words()

        told = child.last_words(redactor.redacted)

        assert told.endswith("yyy")
        assert not any(piece in told for piece in PIECES)


async def test_the_last_words_of_a_program_are_told_in_any_script() -> None:
    child = PipedChild(cast("Child", None))
    child._err = asyncio.StreamReader()
    child._err.feed_data("語".encode() * 100_000)
    child._err.feed_eof()

    await child.keep_last_words()

    assert child.last_words(redactor.redacted) == "語" * KEPT_WORDS
