"""Secrets where a text is cut: neither half of one is left to be shown, sent or kept."""

from collections.abc import Callable
from pathlib import Path

from machine_kit import PLAIN, scene
from tables import table
from toolbench import Bench

from midstream.core.notices import Envelope, ListenerFailed
from midstream.tools.search import SHOWN_LINE_CHARS, excerpt
from midstream.tools.shell import Output
from midstream.tools.tool_text import capped, shortened

KEY = "sk-ant-api03-" + "Zq7Xw2Kd9Lm4Pn8R" * 5
PEM = "\n".join(
    (
        "-----BEGIN RSA PRIVATE KEY-----",
        *["MIIEowIBAAKCAQEA7Zq7Xw2Kd9Lm4Pn8RtYuIoPa"] * 30,
        "-----END RSA PRIVATE KEY-----",
    )
)
FIELD = 'password = "Zq7Xw2Kd9Lm4Pn8R"'
HALVES = ("Zq7X", "MIIEow")


def output(text: str) -> str:
    out = Output(first=500, last=500)
    for at in range(0, len(text), 700):
        out.feed(text[at : at + 700].encode())
    return out.text()


def told(text: str) -> str:
    pieces: list[str] = []
    out = Output(pieces.append, first=500, last=500)
    out.feed(text.encode())
    out.tell_rest()
    return "".join(pieces) if len(text) > 20_000 else ""


CUTS: dict[str, Callable[[str], str]] = {
    "what a tool returns": lambda text: capped(text, 1_000),
    "the output of a command": output,
    "the progress of a command": told,
    "a long line of a file": lambda text: shortened(text.replace("\n", "\\n"), 500),
}


@table("where", CUTS)
@table("secret", [KEY, PEM, FIELD], ids=["a key", "a private key", "a password"])
def test_no_half_of_it_is_left(where: str, secret: str) -> None:
    found = [
        before
        for before in (*range(0, 520, 7), 3_480, 3_510, 19_480, 19_500, 19_520)
        for after in (0, 3, 480, 495, 3_990, 20_000, 30_011)
        if any(
            half in CUTS[where]("," * before + " " + secret + " " + "," * after) for half in HALVES
        )
        and len(secret) + before + after > 1_100
    ]

    assert found == []


def test_many_secrets_before_it_do_not_move_the_cut_into_one() -> None:
    text = "\n".join([KEY] * 600)

    for size in range(900, 1_000, 3):
        assert not any(half in capped(text, size) for half in HALVES)
        assert not any(half in output("," * (size - 900) + text) for half in HALVES)


def test_a_search_shows_no_half_of_it() -> None:
    for before in (*range(0, 320, 3), 7_990, 8_000, 8_100, 20_000):
        for after in (0, 5, 250, 8_000, 20_000):
            behind = f"{'x' * before} needle {KEY} {'y' * after}"
            ahead = f"{'x' * after} {KEY} {'y' * before} needle {'z' * 300}"
            for line in (behind, ahead):
                shown = excerpt(line, line.index("needle"))
                assert len(line) <= SHOWN_LINE_CHARS or not any(half in shown for half in HALVES)


def test_what_holds_no_secret_is_cut_as_it_was() -> None:
    text = "".join(str(n % 10) for n in range(50_000))

    assert (
        capped(text, 1_000) == f"{text[:500]}\n[... 49,000 characters left out ...]\n{text[-500:]}"
    )
    assert output(text) == capped(text, 1_000)
    assert shortened(text, 10) == "0123456789 [... 49,990 characters left out]"


async def test_a_file_s_long_line_shows_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'x' * 980} {KEY} {'y' * 9_000}\n")

    shown = await Bench(tmp_path).text("read_files", paths=["a.txt"])

    assert not any(half in shown for half in HALVES)


async def test_what_a_listener_raises_is_told_without_it() -> None:
    def breaks(_envelope: Envelope) -> None:
        raise ValueError(f"no access with {KEY}")

    async with scene(PLAIN, "Done.") as here:
        here.machine.on("run_started", breaks)
        await here.machine.start()
        await here.machine.wait()

        failures = here.told.of(ListenerFailed)
        assert failures
        assert not any(half in failure.error for failure in failures for half in HALVES)
