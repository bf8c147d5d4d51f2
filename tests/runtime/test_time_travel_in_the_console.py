"""`/fork` and `/putback`: the console goes back, and files go back once, if a person says so."""

from pathlib import Path

import pytest
from time_travel_kit import CHAT, store_engine

from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake
from midstream.runtime.engine.run_repository import WorkspaceRuns
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import ScriptedModel, define

CALL = ToolCall(id="c1", name="write_file", arguments={"path": "a.txt"})


async def written(store: MemoryStore, folder: Path) -> None:
    """Keep a run that wrote `a.txt`."""
    path = folder / "a.txt"
    path.write_bytes(b"new")
    facts: tuple[e.AnyFact, ...] = (
        e.RunStarted(workflow="test", definition=define(CHAT), workspace=str(folder)),
        e.StateTransition(source="", target="start", reason="started"),
        e.AgentResponded(agent="dude", text="", calls=(CALL,), is_final=False),
        e.ToolCalled(call_id="c1", name="write_file", arguments=CALL.arguments, agent="dude"),
        e.FileWritten(
            call_id="c1",
            path=str(path),
            before=await store.put(b"old"),
            after=await store.put(b"new"),
        ),
    )
    await store.claim("run")
    for seq, fact in enumerate(facts, 1):
        await store.append("run", seq - 1, [Envelope(run="run", at=1.0, event=fact, seq=seq)])
    await store.release("run")


async def test_files_go_back_once_after_a_fork(tmp_path: Path) -> None:
    store = MemoryStore()
    engine = store_engine(store, ScriptedModel("Hm."), workspace=tmp_path)
    runs = WorkspaceRuns(engine)
    await written(store, tmp_path)
    with pytest.raises(UserMistake, match="There is no file to put back"):
        await runs.put_back()

    travelled = await runs.fork("run", 2)

    assert "  a.txt: changed" in travelled.told
    assert travelled.told[-1] == "/putback puts the files back as they were then."
    assert await runs.put_back() == ("a.txt: put back",)
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    with pytest.raises(UserMistake, match="There is no file to put back"):
        await runs.put_back()
