"""The journal in memory keeps the contract of the port, and so does the fake one."""

import asyncio

import pytest

from midstream.language.errors import WorldTrouble
from midstream.store.memory import MemoryStore
from midstream.testing.contracts import JournalContract, fact
from midstream.testing.fakes import FakeJournal, Gate


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> MemoryStore:
        return MemoryStore()


class TestFakeJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> FakeJournal:
        return FakeJournal()

    async def test_trouble_keeps_nothing(self) -> None:
        journal = FakeJournal()
        journal.trouble = WorldTrouble("the disk is full")
        with pytest.raises(WorldTrouble):
            await journal.append("r", 0, [fact("r", 1)])
        journal.trouble = None
        await journal.append("r", 0, [fact("r", 1)])

        assert await journal.read("r") == [fact("r", 1)]

    async def test_a_gate_holds_every_append(self) -> None:
        async with asyncio.TaskGroup() as group:
            gate = Gate()
            journal = FakeJournal(gate=gate)
            group.create_task(journal.append("r", 0, [fact("r", 1)]))
            await gate.reached()
            assert await journal.read("r") == []
            gate.open()
