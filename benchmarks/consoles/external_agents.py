"""Other people's agents as workers of ours, the real ones: a prompt, a halt, a file, a crash.

`python -m benchmarks.consoles.external_agents [NAME ...] [--into FOLDER]` installs them from npm and
prints the table of docs/agents.md. They talk to a model of ours on loopback; nobody logs in.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import msgspec
from support.model_server import Call, ModelServer, Reply

from benchmarks.consoles.start import TEMPORARY, Installed, install, made_home
from benchmarks.consoles.table import RIVALS, Console
from benchmarks.consoles.wire import EverySpeech, Request, read_request
from midstream.agents.external_agents import AcpAgents
from midstream.agents.presets import PRESETS, version_of
from midstream.core.events import Usage
from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.names import Json, Outcome
from midstream.runtime.ports import ExternalCall, ExternalPrompt, ModelReply, Permission
from midstream.system.process_tree import TAG

SLOW: Final = 400
CONSOLES: Final = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "qwen": "Qwen Code",
}
ENV: Final = {"GEMINI_MODEL": "gemini-2.5-pro", "OPENAI_MODEL": "bench"}
WRITES: Final = {
    "Write": "file_path",
    "write_file": "file_path",
    "write": "filePath",
    "exec_command": "",
}


class Row(msgspec.Struct, kw_only=True):
    """What was seen of one agent."""

    name: str
    version: str = ""
    start_s: float = 0.0
    halt_ms: float = 0.0
    late_words: int = 0
    was_killed: bool = False
    keeps: str = ""
    asked: bool = False
    wrote_by: str = ""
    usage: str = ""
    again: str = ""
    left: int = 0
    trouble: str = ""


class Server(ModelServer):
    """A model that does what the last of our words in a request says."""

    speech = EverySpeech()

    def __init__(self, work: Path) -> None:
        super().__init__(default=self._step)
        self.heard: list[Request] = []
        self._work = work
        self._has_written = False

    def _step(self, body: dict[str, Json]) -> Reply:
        request = read_request(body)
        if not request.tools or "PEBBLES" not in request.text:
            return Reply(text="Stones")
        self.heard.append(request)
        words = request.text[request.text.rindex("PEBBLES") :]
        if words.startswith("PEBBLES slowly"):
            return Reply(chunks=tuple(f"stone{n} " for n in range(SLOW)), delay_s=0.03)
        tool = next((name for name in WRITES if name in request.tools), "")
        if words.startswith("PEBBLES write") and tool and not self._has_written:
            self._has_written = True
            given: dict[str, Json] = {"cmd": "echo grey > new.txt"}
            given |= {"sandbox_permissions": "require_escalated", "justification": "May I?"}
            if WRITES[tool]:
                given = {WRITES[tool]: str(self._work / "new.txt"), "content": "grey\n"}
            return Reply(text="I write. ", calls=(Call(name=tool, arguments=given),))
        return Reply(text="Well said.")


class Listener:
    """Grants everything, does what it is told, and notes both."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.sessions: list[tuple[str, bool]] = []
        self.words = 0
        self.starts = 0
        self.asked = False
        self.wrote = False
        self.stopped_at = 0.0
        self.late = 0
        self.streams = asyncio.Event()

    def text(self, delta: str) -> None:
        """Count a piece of the reply."""
        self.words += 1
        self.late += bool(self.stopped_at)
        if self.words > 5:
            self.streams.set()

    def thinking(self, delta: str) -> None:
        """Leave it."""

    def calling(self, name: str) -> None:
        """Leave it."""

    def status(self, text: str) -> None:
        """Count a start."""
        self.starts += 1

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Leave it."""

    async def opened(self, session: str, *, is_new: bool) -> None:
        """Note the session."""
        self.sessions.append((session, is_new))

    async def called(self, call: ExternalCall) -> None:
        """Leave it."""

    async def permit(self, call: ExternalCall) -> Permission:
        """Grant it."""
        self.asked = True
        return Permission(is_granted=True)

    async def returned(self, id: str, outcome: Outcome, text: str) -> None:
        """Leave it."""

    async def read_text(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return a file."""
        try:
            return await asyncio.to_thread((self.work / path).read_text)
        except FileNotFoundError as error:
            raise UserMistake(f"There is no file {path!r}.", hint="Make it.") from error

    async def write_text(self, path: str, text: str) -> None:
        """Write a file."""
        self.wrote = True
        await asyncio.to_thread((self.work / path).write_text, text)


def tagged() -> int:
    """Return how many processes live that agents of ours have started."""
    count = 0
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += f"{TAG}=".encode() in each.read_bytes()
        except OSError:
            continue
    return count


async def seen(found: Installed, name: str) -> Row:
    """Return what was seen of one agent."""
    row = Row(name=PRESETS[name].title)
    with made_home() as home, Server(home.work) as server:
        for file, text in found.console.files.items():
            place = home.folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            filled = home.filled(text, found, server.base_url)
            place.write_text(filled.replace('approval_policy = "never"', ""))
        environ = {**home.env(found, server.base_url), **ENV}
        environ["PATH"] = os.environ["PATH"] = f"{found.bin}:{found.path}"
        row.version = version_of(f"{found.bin}/{PRESETS[name].program}")
        before = tagged()
        agents, listener = AcpAgents(environ=environ), Listener(home.work)

        async def prompt(words: str) -> ModelReply:
            session = listener.sessions[-1][0] if listener.sessions else ""
            about: dict[str, Any] = {"agent": name, "acp": name, "owner": "run"}
            return await agents.prompt(
                ExternalPrompt(
                    **about, workspace=home.work, text=words, whole=words, session=session
                ),
                listener,
            )

        try:
            began = perf_counter()
            reply = await prompt("PEBBLES please")
            row.start_s = perf_counter() - began
            if reply.usage is not None:
                tokens = "tokens" if reply.usage.input_tokens else "nothing"
                row.usage = f"{tokens}, dollars" if reply.usage.cost_usd else tokens
            await _halted(row, prompt, listener, server)
            await prompt("PEBBLES write")
            row.asked = listener.asked
            is_there = (home.work / "new.txt").exists()
            row.wrote_by = ("through us" if listener.wrote else "itself") if is_there else "not"
            await agents.end("run")
            await prompt("PEBBLES again")
            heard = server.heard[-1].text
            row.again = "begins anew" if listener.sessions[-1][1] else "goes on"
            row.again += "" if "PEBBLES please" in heard else ", and knows nothing"
        except MidstreamError as error:
            row.trouble = str(error)
        finally:
            await agents.end("run")
        row.left = tagged() - before
    return row


async def _halted(row: Row, prompt: Any, listener: Listener, server: Server) -> None:
    listener.words, starts = 0, listener.starts
    listener.streams.clear()
    prompting = asyncio.create_task(prompt("PEBBLES slowly"))
    streams = asyncio.create_task(listener.streams.wait())
    await asyncio.wait((prompting, streams), return_when=asyncio.FIRST_COMPLETED)
    listener.stopped_at = perf_counter()
    prompting.cancel()
    await asyncio.wait((prompting, streams))
    row.halt_ms = (perf_counter() - listener.stopped_at) * 1000
    row.late_words, listener.stopped_at = listener.late, 0.0
    await prompt("PEBBLES after")
    row.was_killed = listener.starts > starts
    heard = server.heard[-1].text
    kept = [
        what
        for what, word in (("the words", "PEBBLES slowly"), ("the reply", "stone3"))
        if word in heard
    ]
    row.keeps = " and ".join(kept) or "neither"


def table(rows: list[Row]) -> str:
    """Return the table of docs/agents.md."""
    lines = [
        "| | version | start to the first reply, s | halt to its end, ms | words shown after the halt "
        "| keeps of a cut turn | asks before it writes | writes | reports | after a crash | left running |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row.trouble:
            lines.append(f"| {row.name} | {row.version} | {row.trouble} |")
            continue
        halt = f"{row.halt_ms:.0f}" + (", killed" if row.was_killed else "")
        asks = "yes" if row.asked else "no"
        lines.append(
            f"| {row.name} | {row.version} | {row.start_s:.1f} | {halt} | {row.late_words} | {row.keeps} "
            f"| {asks} | {row.wrote_by} | {row.usage} | {row.again} | {row.left} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Install, look, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consoles.external_agents")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PRESETS))
    parser.add_argument("--into", type=Path, help="install here, and keep it for the next time")
    chosen = parser.parse_args()
    by_name: dict[str, Console] = {each.name: each for each in RIVALS}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="midstream-agents-", dir=TEMPORARY) as temporary:
        for name in chosen.names or PRESETS:
            preset = PRESETS[name]
            console = msgspec.structs.replace(
                by_name[CONSOLES[name]],
                package=preset.package,
                program=(f"$BIN/{preset.program}",),
                help=("--version",),
            )
            found = install(console, (chosen.into or Path(temporary)).absolute())
            if found.trouble:
                rows.append(Row(name=preset.title, trouble=found.trouble))
            else:
                rows.append(asyncio.run(seen(found, name)))
            print(rows[-1], flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
