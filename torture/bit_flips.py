"""Flipped bits: a finished journal with one bit changed is read whole; nothing wrong may be used.

Every answer has to be what was written, or an error that says so.
"""

import asyncio
import random
import shutil
import tempfile
from pathlib import Path

from midstream.core.events import WorkflowOutput
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError
from midstream.runtime.storage import Mail
from midstream.store.sqlite import SqliteStore
from torture.report import Broken, Report

RUNS = 3
FACTS = 40


def flips(count: int, seed: int) -> Report:
    """Return which of so many single flipped bits made the store answer something wrong."""
    folder = Path(tempfile.mkdtemp())
    chance = random.Random(seed)
    broken: list[Broken] = []
    noticed = 0
    try:
        whole = folder / "whole.db"
        asyncio.run(_written(whole))
        data = whole.read_bytes()
        truth = asyncio.run(_read(whole))
        for _ in range(count):
            bit = chance.randrange(len(data) * 8)
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << (bit % 8)
            place = Path(tempfile.mkdtemp(dir=folder)) / "journal.db"
            place.write_bytes(changed)
            answers = asyncio.run(_read(place))
            shutil.rmtree(place.parent)
            reported = _reported(answers)
            noticed += bool(reported)
            for what, answer in answers.items():
                if not isinstance(answer, str) and _lies(answer, truth[what], reported):
                    again = f"python -m torture flips --seed {seed} --flips {count}"
                    broken.append(Broken(point=f"bit {bit}", what=f"{what} is wrong", again=again))
    finally:
        shutil.rmtree(folder)
    note = f"{noticed} noticed, the others harmless"
    return Report(name="bit flips", tried=count, broken=tuple(broken), note=note)


def _reported(answers: dict[str, object]) -> list[str]:
    """Return every damage the store itself told of."""
    listing = answers.get("listing")
    listed = [kept.damaged for kept in listing if kept.damaged] if isinstance(listing, list) else []
    return [*listed, *(answer for answer in answers.values() if isinstance(answer, str))]


def _lies(answer: object, truth: object, reported: list[str]) -> bool:
    """Return whether an answer holds what was never written, or lacks something without a word."""
    if not isinstance(answer, list) or not isinstance(truth, list):
        return answer != truth
    invented = [each for each in answer if each not in truth and not getattr(each, "damaged", "")]
    return bool(invented) or (len(answer) < len(truth) and not reported)


async def _written(path: Path) -> None:
    store = SqliteStore.opened(path)
    for run in range(RUNS):
        name = f"run{run}"
        for seq in range(1, FACTS + 1):
            text = f"fact {seq} of {name} " + "x" * (seq * 7 % 300)
            fact = Envelope(run=name, at=float(seq), event=WorkflowOutput(text=text), seq=seq)
            await store.append(name, seq - 1, [fact])
        await store.keep_snapshot(
            name, 20, f"snapshot of {name}".encode() * 30, {"p": b"page" * 30}
        )
        await store.post(Mail(id=f"l{run}", run=name, at=1.0, text="words " * 20))
    await store.aclose()


async def _read(path: Path) -> dict[str, object]:
    """Return every answer of the store by what was asked, an error as text."""
    answers: dict[str, object] = {}
    try:
        store = SqliteStore.opened(path)
    except MidstreamError as error:
        return {"open": str(error)}
    try:
        for run in range(RUNS):
            name = f"run{run}"
            for what, ask in (
                (f"read {name}", store.read(name)),
                (f"snapshot {name}", store.snapshot(name)),
            ):
                try:
                    answer: object = await ask
                except MidstreamError as error:
                    answer = str(error)
                # A snapshot is a cache: to have none is no wrong answer.
                answers[what] = "no snapshot" if answer is None else answer
        for what, question in (("letters", store.mail("")), ("listing", store.listing())):
            try:
                answers[what] = await question
            except MidstreamError as error:
                answers[what] = str(error)
    finally:
        await store.aclose()
    return answers
