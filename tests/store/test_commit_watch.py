"""How often a store looks whether others have written."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from midstream.store import commit_watch
from midstream.store.commit_watch import Watch

HOUR_S = 3600.0


async def test_however_often_something_changes_there_is_one_look_in_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_watch, "LOOK_S", HOUR_S)
    looks: list[Collection[str | None]] = []

    def look(wanted: Collection[str | None]) -> Mapping[str | None, object]:
        looks.append(wanted)
        return {"r": len(looks)}

    watch = Watch(look, lambda: None)
    try:
        await watch.changed(HOUR_S, ["r"])  # nobody has waited for it: it may have changed
        await watch.changed(HOUR_S, ["r"])
        for _ in range(100):
            waiters = [asyncio.create_task(watch.changed(HOUR_S, ["r"])) for _ in range(5)]
            await asyncio.to_thread(dict)  # the thread of the watch has its turn, too
            watch.note(["r"])
            await asyncio.gather(*waiters)
    finally:
        await asyncio.to_thread(watch.close)
    assert looks == [{"r"}]
