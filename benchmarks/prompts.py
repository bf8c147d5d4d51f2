"""Consoles side by side, on this machine and in the same minutes: ours, aider, `llm chat`, a bare prompt.

Each is started in a pty as a person would start it, with nothing configured but a model at a server of our
own and nothing sent anywhere else: the time until its prompt stands there; then, once it has rested, its
memory, what it draws by itself, how long a key takes to come back; and what it draws while one reply
streams in at 50 tokens a second. Where a console has no prompt while a reply streams, no key has an echo
then, and none is measured.

aider and llm have environments of their own below `.bench/` (see `durable_others`).
"""

import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from benchmarks.durable_others import Other, install, python_of
from benchmarks.echo_latency import Typist
from benchmarks.halt_in_terminal import serving, sign_of
from benchmarks.measuring import Figure, number, percentile, progress, spread
from benchmarks.processes import below, memory_mb
from benchmarks.redraw import drawn
from benchmarks.terminal import Terminal, bare_prompt, fresh_home, midstream

TOKENS_A_SECOND = 50
STREAMED_S = 2.5
BARE = "prompt_toolkit, bare"


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A program with a prompt. `argv` and `env` get its home and the environment of the server.

    `prompt` matches what it has written once the prompt stands there; `streams`: it asks a model.
    """

    name: str
    argv: Callable[[Path], Sequence[str | Path]]
    prompt: bytes
    other: Other | None = None
    env: Callable[[Path, Mapping[str, str]], Mapping[str, str]] = lambda _, server: server
    streams: bool = True
    remark: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one start of one console came to; `memory` is (PSS, RSS) in MB, None without /proc."""

    start_ms: float
    echo_ms: tuple[float, ...]
    idle: float
    streaming: float | None
    memory: tuple[float, float] | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A console in the table: its samples, or why there are none."""

    console: Console
    samples: tuple[Sample, ...] = ()
    trouble: str = ""


AIDER = Other(name="aider", program="aider", requirements=("aider-chat==0.86.2",))
LLM = Other(name="llm chat", program="llm", requirements=("llm==0.36",))

_AIDER_OPTIONS = (
    *("--model", "gpt-4o", "--no-git", "--no-check-update", "--no-analytics", "--no-gitignore"),
    *("--no-show-model-warnings", "--no-show-release-notes", "--no-suggest-shell-commands"),
)


def _aider_env(home: Path, server: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment; the price list lies in aider's cache, as after its first start of a day."""
    known = next(python_of(AIDER).parents[1].glob("lib/*/site-packages/litellm"))
    cache_folder = home / ".aider" / "caches"
    cache_folder.mkdir(parents=True, exist_ok=True)
    prices = "model_prices_and_context_window"
    shutil.copy(known / f"{prices}_backup.json", cache_folder / f"{prices}.json")
    return {
        "OPENAI_API_KEY": server["OPENAI_API_KEY"],
        "OPENAI_API_BASE": server["OPENAI_BASE_URL"],
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _llm_env(home: Path, server: Mapping[str, str]) -> Mapping[str, str]:
    folder = home / "llm"
    folder.mkdir(exist_ok=True)
    model = f"- model_id: bench\n  model_name: bench\n  api_base: {server['OPENAI_BASE_URL']}\n"
    (folder / "extra-openai-models.yaml").write_text(model, encoding="utf-8")
    return {"LLM_USER_PATH": str(folder), "OPENAI_API_KEY": server["OPENAI_API_KEY"]}


CONSOLES = (
    Console(name="midstream", argv=lambda _: midstream(), prompt="›".encode()),
    Console(name=BARE, argv=bare_prompt, prompt="›".encode(), streams=False),
    Console(
        name="aider",
        argv=lambda _: [python_of(AIDER).with_name("aider"), *_AIDER_OPTIONS],
        prompt=rb"2004h.*>",
        other=AIDER,
        env=_aider_env,
        remark="no prompt while it answers",
    ),
    Console(
        name="llm chat",
        argv=lambda _: [python_of(LLM).with_name("llm"), "chat", "-m", "bench"],
        prompt=rb"to finish.*\n> |prompts\r?\n> |\r\n> $",
        other=LLM,
        env=_llm_env,
        remark="no prompt while it answers; the terminal echoes",
    ),
)


# --- measuring --------------------------------------------------------------------------------


def sampled(console: Console, *, is_quick: bool) -> Sample:
    """Start a console and return what it came to."""
    keys, seconds = (5, 0.5) if is_quick else (60, 3.0)
    with fresh_home() as folder, serving(TOKENS_A_SECOND) as server:
        home = Path(folder)
        env = console.env(home, server)
        if not is_quick:
            # What is made once, such as a database or compiled files, is not what is measured.
            with Terminal(console.argv(home), home, env) as first:
                _until_prompt(first, console)
        with Terminal(console.argv(home), home, env) as terminal:
            start = (_until_prompt(terminal, console) - terminal.began) * 1e3
            terminal.rest(1.0)
            idle = drawn(terminal, seconds)
            memory = memory_of(terminal.process.pid)
            echo = Typist(terminal).type(keys)
            streaming = _streaming(terminal, is_quick=is_quick) if console.streams else None
    return Sample(
        start_ms=start, echo_ms=tuple(echo), idle=idle, streaming=streaming, memory=memory
    )


def _until_prompt(terminal: Terminal, console: Console) -> float:
    prompt = re.compile(console.prompt, re.DOTALL)
    return terminal.until(lambda found: prompt.search(found) is not None)


def _streaming(terminal: Terminal, *, is_quick: bool) -> float:
    terminal.type("\x15go")
    terminal.rest(0.3)
    terminal.type("\r")
    terminal.until_text(sign_of(0, 0))
    return drawn(terminal, 0.5 if is_quick else STREAMED_S)


def memory_of(pid: int) -> tuple[float, float] | None:
    """Return the memory of a process and all below it in MB: its share (PSS), and all it sees (RSS)."""
    found = memory_mb(below(pid))
    return found if found[1] else None


@cache
def compare(is_quick: bool) -> tuple[Row, ...]:
    """Return a row for each console; measured once a process. A quick round installs nothing."""
    rounds = 1 if is_quick else 5
    rows = []
    for console in CONSOLES:
        trouble = "" if console.other is None else install(console.other, may_make=not is_quick)
        rows.append(Row(console=console, trouble=trouble))
    for round_number in range(rounds):
        progress(f"    round {round_number + 1} of {rounds}")
        indices = range(len(rows))
        for index in indices if round_number % 2 == 0 else reversed(indices):
            if not rows[index].trouble:
                rows[index] = _one_more(rows[index], is_quick=is_quick)
    return tuple(rows)


def _one_more(row: Row, *, is_quick: bool) -> Row:
    try:
        sample = sampled(row.console, is_quick=is_quick)
    except (OSError, EOFError, subprocess.SubprocessError, StopIteration) as error:
        if row.console.other is None:
            raise
        return Row(console=row.console, trouble=f"failed: {str(error).strip()[:120]!r}")
    return msgspec.structs.replace(row, samples=(*row.samples, sample))


# --- showing ----------------------------------------------------------------------------------


def comparison(is_quick: bool) -> str:
    """Return the consoles side by side as a markdown table."""
    lines = [
        "| console | version | start to prompt, ms | key to echo p50, ms | p99, ms "
        "| memory at the prompt, MB: PSS (RSS) | drawn idle, bytes/s | drawn while one reply streams, "
        "bytes/s | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in compare(is_quick):
        if not row.samples:
            lines.append(f"| {row.console.name} | {row.trouble} | | | | | | | |")
            continue
        samples = row.samples
        cells = [
            row.console.name,
            _version(row.console),
            spread([each.start_ms for each in samples]),
            spread([percentile(each.echo_ms, 50) for each in samples]),
            spread([percentile(each.echo_ms, 99) for each in samples]),
            _memory(samples),
            spread([each.idle for each in samples]),
            spread([each.streaming for each in samples if each.streaming is not None] or [0.0])
            if row.console.streams
            else "",
            row.console.remark,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _version(console: Console) -> str:
    if console.other is not None:
        return console.other.requirements[0].partition("==")[2]
    from importlib.metadata import version

    return version("midstream" if console.streams else "prompt_toolkit")


def _memory(samples: Sequence[Sample]) -> str:
    found = [each.memory for each in samples if each.memory is not None]
    if not found:
        return ""
    pss, rss = (statistics.median(each[n] for each in found) for n in (0, 1))
    return f"{number(pss)} ({number(rss)})"


def measure(is_quick: bool) -> list[Figure]:
    """Return how each console there is compares with a bare prompt. `comparison` shows them all."""
    rows = compare(is_quick)
    bare = next(row for row in rows if row.console.name == BARE).samples
    figures = []
    for row in rows:
        if row.console.name == BARE or not row.samples or len(row.samples) != len(bare):
            continue
        context = "" if row.console.name == "midstream" else "context: "

        def figure(
            what: str,
            unit: str,
            of: Callable[[Sample], float],
            *,
            row: Row = row,
            context: str = context,
        ) -> Figure:
            return Figure(
                name=f"{context}{what}, {row.console.name}",
                unit=unit,
                values=tuple(map(of, row.samples)),
                floor="a bare prompt_toolkit prompt",
                floors=tuple(map(of, bare)),
            )

        figures.append(figure("start to prompt", "ms", lambda s: s.start_ms))
        figures.append(
            figure("key to echo at rest, p50", "ms", lambda s: percentile(s.echo_ms, 50))
        )
        figures.append(
            figure("key to echo at rest, p99", "ms", lambda s: percentile(s.echo_ms, 99))
        )
        if all(sample.memory is not None for sample in (*row.samples, *bare)):
            figures.append(
                figure("memory at the prompt (PSS)", "MB", lambda s: (s.memory or (0.0, 0.0))[0])
            )
    return figures
