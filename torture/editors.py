"""Editors that talk to `midstream acp` at random, through the protocol's official client.

Each conversation prompts, prompts again in mid-turn, cancels, answers or leaves permission requests, and
lets go of the agent, or kills it with SIGKILL, up to twice; the next process takes up the same session.
Its model is a server of the provider's protocol, which streams slowly, runs commands and asks questions.
Afterwards:

* every prompt whose process lived has its stop reason, and nothing but the protocol was on stdout;
* each prompt that had its stop reason is in the journal once, with exactly one disposition, and one whose
  process was killed is there at most once;
* no command ran twice, and the provider took every request.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final

from support.model_server import Body, Call, Reply
from support.openai_server import OpenAIServer

from midstream.core.events import AgentFailed, InputDisposed, InputReceived
from midstream.store.sqlite import SqliteStore
from torture.report import Broken, Report

SDK: Final = Path(__file__).parents[1] / "tests/npm/node_modules/@agentclientprotocol/sdk"
AT_ONCE: Final = 4
HANGS_S: Final = 1_800.0

Story = dict[str, Any]


class Talker:
    """What the provider says: words in pieces, a command that leaves its mark, a question."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._marks = count(1)

    def __call__(self, body: Body) -> Reply:
        """Return the next reply."""
        chance = self._chance.random()
        pieces = tuple(f"piece {number} " for number in range(self._chance.randint(1, 30)))
        delay_s = self._chance.choice((0, 0.001, 0.01))
        if chance < 0.25:
            call = Call(
                name="execute_terminal", arguments={"command": f"echo {next(self._marks)} >> marks"}
            )
            return Reply(chunks=pieces[:3], calls=(call,))
        if chance < 0.3:
            asked = {"question": "Which one?"}
            return Reply(calls=(Call(name="request_users_input", arguments=asked),))
        if chance < 0.33:
            return Reply(calls=(Call(name="list_directory", arguments={}),))
        return Reply(chunks=pieces, delay_s=delay_s)


def editors_storm(conversations: int, seed: int) -> Report:
    """Return what broke in so many conversations."""
    folder = Path(tempfile.mkdtemp())
    try:
        work = folder / "work"
        work.mkdir()
        _set_up(folder / ".config" / "midstream")
        with OpenAIServer(default=Talker(seed)) as server:
            stories = list(_stories(folder, server.base_url, conversations, seed))
            refused = [each.body for each in server.exchanges if each.status == 400]
        wrong, note = asyncio.run(_judged(folder, stories))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong += [("provider", f"refused a request: {json.dumps(body)[:500]}") for body in refused]
    if len(stories) < conversations:
        wrong.append(("editors", f"only {len(stories)} conversations came to their end"))
    again = f"python -m torture editors --conversations {conversations} --seed {seed}"
    broken = tuple(Broken(point=point, what=what, again=again) for point, what in wrong)
    return Report(name="editors at random", tried=conversations, broken=broken, note=note)


def _set_up(folder: Path) -> None:
    """Make the settings of a person who chats with a role that runs commands."""
    (folder / "roles").mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    tools = ["execute_terminal", "list_directory", "request_users_input"]
    role = {"storm": {"systemMessage": "You run commands.", "includedTools": tools}}
    (folder / "roles" / "storm.json").write_text(json.dumps(role), "utf-8")
    (folder / "application.json").write_text('{"currentMode": "role:storm"}', "utf-8")


def _stories(folder: Path, model: str, conversations: int, seed: int) -> Iterator[Story]:
    """Yield what the editors tell, a few of which talk at a time."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "MIDSTREAM_JOURNAL": str(folder / "journal.db"),
        "MIDSTREAM_MODEL": "openai:gpt-5.6-luna",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": model,
    }
    asked = {
        "midstream": [sys.executable, "-m", "midstream", "acp"],
        "sdk": (SDK / "dist/v1/unstable/acp.js").as_uri(),
        "seed": seed,
        "cwd": str(folder / "work"),
        "env": environment,
    }
    share = -(-conversations // AT_ONCE)
    shares = [
        {**asked, "first": first, "count": min(share, conversations - first)}
        for first in range(0, conversations, share)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for told in pool.map(_told, shares):
            yield from told


def _told(share: dict[str, Any]) -> list[Story]:
    done = subprocess.run(
        ["node", str(Path(__file__).with_suffix(".mjs"))],
        input=json.dumps(share),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    sys.stderr.write(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _judged(folder: Path, stories: list[Story]) -> tuple[list[tuple[str, str]], str]:
    """Return what is not as promised, and figures."""
    wrong: list[tuple[str, str]] = []
    ends: Counter[str] = Counter()
    store = SqliteStore.opened(folder / "journal.db")
    try:
        for story in stories:
            point = f"conversation {story['number']}"
            sessions = (*story["sessions"], story["session"])
            facts = [fact for id in sessions if id for fact in await store.read(id)]
            wrong += [(point, what) for what in story["wrong"]]
            wrong += [(point, what) for what in _lost(story, [each.event for each in facts])]
            ends.update(str(entry["came"]).partition(":")[0] for entry in story["prompts"])
    finally:
        await store.aclose()
    marks = folder / "work" / "marks"
    ran = Counter(marks.read_text("utf-8").split() if marks.exists() else [])
    wrong += [
        ("commands", f"mark {mark} was left {times} times")
        for mark, times in ran.items()
        if times > 1
    ]
    lives = sum(story["lives"] for story in stories)
    cancels = sum(story["cancels"] for story in stories)
    came = ", ".join(f"{times} {end}" for end, times in sorted(ends.items()))
    return wrong, f"{lives} processes, {cancels} cancels, {len(ran)} commands; prompts: {came}"


def _lost(story: Story, facts: list[Any]) -> Iterator[str]:
    """Yield what of its prompts was lost, doubled or never ended."""
    said: dict[str, list[str]] = {}
    for fact in facts:
        if isinstance(fact, InputReceived):
            said.setdefault(fact.text, []).append(fact.input_id)
        if isinstance(fact, AgentFailed):
            yield f"the agent failed: {fact.error}"
    disposed = Counter(fact.input_id for fact in facts if isinstance(fact, InputDisposed))
    for entry in story["prompts"]:
        text, came = entry["text"], entry["came"]
        ids = said.get(text, [])
        if came is None or came.startswith("error"):
            yield f"{text!r} came to {came}"
        elif len(ids) > 1 or (came != "gone" and not ids):
            yield f"{text!r} ({came}) is in the journal {len(ids)} times"
        elif any(disposed[id] != 1 for id in ids):
            yield f"{text!r} ({came}) has {[disposed[id] for id in ids]} dispositions"
