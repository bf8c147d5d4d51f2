"""What a run has made of files: from before its first write to what they hold now."""

import asyncio
from pathlib import Path

from time_travel_kit import CHAT, DEADLINE_S

from midstream.core.events import AnyFact, FileWritten, RunStarted, ToolReturned
from midstream.core.notices import Envelope
from midstream.runtime.engine.run_files import changed_files
from midstream.testing.fakes import FakeBlobStore, define
from midstream.views.side_effects import PUT_BACK, ChangedFile


class Story:
    """A run that wrote files of a folder, and what they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = FakeBlobStore()
        self.facts: list[AnyFact] = [
            RunStarted(workflow="test", definition=define(CHAT), workspace=str(folder))
        ]

    async def wrote(
        self, name: str, before: str | None, after: str | None, *, call_id: str = ""
    ) -> None:
        keys = [
            None if text is None else await self.blobs.put(text.encode())
            for text in (before, after)
        ]
        path = self.folder / name
        id = call_id or f"c{len(self.facts)}"
        written = FileWritten(call_id=id, path=str(path), before=keys[0], after=keys[1])
        self.facts.append(written)
        if not call_id:
            self.facts.append(
                ToolReturned(call_id=id, name="write_file", outcome="completed", result="")
            )
        if after is not None:
            path.write_text(after)

    async def changed(self) -> tuple[ChangedFile, ...]:
        facts = [Envelope(run="r", at=1.0, event=e, seq=n) for n, e in enumerate(self.facts, 1)]
        async with asyncio.timeout(DEADLINE_S):
            return await changed_files(self.blobs, facts)


def told(changed: tuple[ChangedFile, ...]) -> list[tuple[str, str, str]]:
    return [(each.diff.path, each.diff.diff.partition("\n")[2], each.note) for each in changed]


async def test_the_first_before_is_compared_with_what_is_there_now(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.wrote("a.txt", "one\n", "two\n")
    await story.wrote("a.txt", "two\n", "three\n")
    await story.wrote("b.txt", None, "new\n")

    assert told(await story.changed()) == [
        ("a.txt", "-one\n+three", ""),
        ("b.txt", "+new", "new"),
    ]


async def test_changes_of_others_are_shown_and_told(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.wrote("since.txt", "one\n", "two\n")
    await story.wrote("between.txt", "one\n", "two\n")
    await story.wrote("between.txt", "theirs\n", "three\n")
    await story.wrote("gone.txt", "one\n", "two\n")
    (tmp_path / "since.txt").write_text("theirs\n")
    (tmp_path / "gone.txt").unlink()

    assert told(await story.changed()) == [
        ("since.txt", "-one\n+theirs", "changed by others since"),
        ("between.txt", "-one\n+three", "changed by others in between"),
        ("gone.txt", "-one", "no longer there"),
    ]


async def test_a_file_that_is_as_before_differs_in_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.wrote("a.txt", "one\n", "two\n")
    (tmp_path / "a.txt").write_text("one\n")

    (changed,) = await story.changed()

    assert (changed.diff.diff, changed.diff.added) == ("", 0)
    assert (changed.note, changed.is_same) == ("as it was before", True)


async def test_what_going_back_put_back_is_no_change_of_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.wrote("a.txt", "one\n", "two\n")
    await story.wrote("a.txt", "three\n", "two\n", call_id=PUT_BACK)
    await story.wrote("b.txt", "new\n", None, call_id=PUT_BACK)

    assert told(await story.changed()) == [("a.txt", "-one\n+two", "")]


async def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.wrote("lost.txt", "one\n", "two\n")
    story.blobs.kept.clear()
    await story.wrote("data.bin", "a\0b", "a\0c")

    lost, data = await story.changed()

    assert lost.diff.diff == ""
    assert lost.note
    assert data.diff.diff == "[not text: 3 bytes before, 3 bytes after]"
    assert await changed_files(story.blobs, []) == ()
