"""The editor: what a line was begun under, what comes back, what is folded."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from prompt_toolkit.history import History

from midstream.config.private_files import write_whole
from midstream.tui import line_history
from midstream.tui.editor import Editor, Pastes
from midstream.tui.line_history import Draft, LineHistory, history_in


class Typed:
    """What is on the screen."""

    def __init__(self, history: History | None = None) -> None:
        self.on_screen: frozenset[str] = frozenset()
        self.editor = Editor(
            history or history_in(None, lambda text: None),
            on_screen=lambda: self.on_screen,
            completions=lambda before: (("say:help", ""), ("say:hello", "")),
        )


def test_a_line_belongs_to_the_moment_of_its_first_key() -> None:
    session = Typed()
    session.editor.buffer.insert_text("u")
    session.on_screen = frozenset({"q1"})
    session.editor.buffer.insert_text("se tabs")

    assert session.editor.take().seen == frozenset()

    session.editor.buffer.insert_text("red")
    assert session.editor.take().seen == {"q1"}


def test_emptying_the_line_begins_a_new_one() -> None:
    session = Typed()
    session.editor.buffer.insert_text("u")
    session.editor.backspace()
    session.on_screen = frozenset({"q1"})
    session.editor.buffer.insert_text("red")

    assert session.editor.take().seen == {"q1"}


def test_a_line_that_comes_back_never_clobbers_newer_text() -> None:
    editor = Typed().editor
    editor.buffer.insert_text("older")
    older = editor.take()
    editor.buffer.insert_text("newer")

    assert not editor.bring_back(older)
    assert editor.buffer.text == "newer"

    editor.take()
    editor.up()
    assert editor.buffer.text == "older"


def test_completion_adds_what_is_certain() -> None:
    editor = Typed().editor
    editor.buffer.insert_text("say:h")
    editor.complete()

    assert editor.buffer.text == "say:hel"


def test_a_long_paste_is_a_label_until_it_is_sent() -> None:
    editor = Typed().editor
    editor.buffer.insert_text("see: ")
    editor.paste("x\r\n" * 50)
    shown = editor.buffer.text
    line = editor.take()

    assert shown == "see: [pasted 50 lines #1]"
    assert line.text == "see: " + "x\n" * 50


def test_a_short_paste_is_just_text() -> None:
    assert Pastes().folded("a\rb") == "a\nb"


def test_a_label_typed_by_hand_stands_for_nothing() -> None:
    assert Pastes().unfolded("[pasted 3 lines #7]") == "[pasted 3 lines #7]"


def test_a_lone_surrogate_in_a_paste_is_replaced() -> None:
    editor = Typed().editor
    editor.paste("a\ud800b")

    assert editor.take().text == "a\ufffdb"


def test_what_comes_of_the_clipboard_late_is_not_put_into_the_words_typed_meanwhile() -> None:
    editor = Typed().editor
    editor.buffer.insert_text("see ")
    before = editor.buffer.document.text_before_cursor
    editor.buffer.insert_text("and say")

    editor.paste_behind(before, "[it] ")
    editor.buffer.insert_text(" why")
    assert editor.take().text == "see [it] and say why"

    editor.buffer.insert_text("another line")
    editor.paste_behind(before, ", it")
    assert editor.take().text == "another line, it"


def test_what_an_earlier_session_folded_comes_back_whole_or_says_what_is_gone(
    tmp_path: Path,
) -> None:
    first = Typed(history_in(tmp_path, print)).editor
    first.paste("x\n" * 100)
    first.buffer.insert_text("in short")
    first.clear()
    assert first.buffer.history.get_strings() == ["[pasted 100 lines #1]in short"]
    first.paste("y" * 30_000)
    first.take()

    later = LineHistory(tmp_path / "history", print).load_history_strings()
    assert list(later) == ["(pasted 30000 characters, not kept)", "x\n" * 100 + "in short"]


def test_words_are_unsent_until_they_have_arrived() -> None:
    editor = Typed().editor
    kept: list[str] = []
    editor.unsent_changed = lambda: kept.append(editor.unsent())
    editor.buffer.insert_text("first")
    first = editor.send()
    editor.buffer.insert_text("second")

    assert kept == ["first\0"]
    assert editor.unsent() == "first\0second"

    editor.arrived(first)
    assert kept[1:] == ["second"]


@pytest.mark.parametrize("text", ["half a thought", "x" * 30_000], ids=["short", "long"])
def test_a_line_of_an_earlier_session_is_kept_when_another_is_typed_over_it(
    tmp_path: Path, text: str
) -> None:
    editor = Typed(history_in(tmp_path, print)).editor
    editor.restore(text)
    editor.begin_anew("another")
    assert editor.take().text == "another"

    in_history = text in LineHistory(tmp_path / "history", print).load_history_strings()
    assert in_history or editor.unsent() == text, "a kill would lose it"
    editor.up()
    assert editor.unfolded() == text


def test_a_line_that_may_have_been_sent_is_kept_as_such_until_it_is_changed() -> None:
    editor = Typed().editor
    editor.restore("sent?", is_doubtful=True)
    assert editor.unsent() == "sent?\0"

    editor.buffer.insert_text(" No")
    assert editor.unsent() == "sent? No"


class Kept:
    """A draft in a folder, and the file it is kept in."""

    def __init__(self, folder: Path) -> None:
        self.text = ""
        self.said: list[str] = []
        self.draft = Draft(
            folder, folder, text=lambda: self.text, on_trouble=lambda text: self.said.append(text)
        )
        self.found = self.draft.open()
        (lock,) = (folder / "drafts").glob("*.lock")
        self.file = lock.with_suffix("")

    def now(self, text: str) -> None:
        """Have another line, kept at once."""
        self.text = text
        self.draft.edited(at_once=True)


async def test_what_was_entered_is_kept_before_it_can_be_drawn(tmp_path: Path) -> None:
    kept = Kept(tmp_path)

    kept.now("hello\0")
    assert kept.file.read_text() == "hello\0"

    kept.now("")
    assert not kept.file.exists()
    await kept.draft.close()


async def test_a_slow_write_does_not_take_the_place_of_what_was_entered_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slow(path: Path, data: bytes, *, is_synced: bool = True) -> None:
        if is_synced:
            begun.set()
            goes_on.wait(DEADLINE_S)
        write_whole(path, data)

    monkeypatch.setattr(line_history, "write_whole", slow)
    monkeypatch.setattr(line_history, "WAIT_S", 0)
    kept = Kept(tmp_path)
    kept.text = "hel"
    kept.draft.edited(at_once=False)
    await asyncio.to_thread(begun.wait, DEADLINE_S)
    monkeypatch.setattr(line_history, "WAIT_S", DEADLINE_S)
    kept.now("hello\0")
    writing = kept.draft._writing
    assert writing is not None
    goes_on.set()
    await asyncio.wait((writing,))

    assert kept.file.read_text() == "hello\0"
    await kept.draft.close()
    assert Kept(tmp_path).found == "hello\0"


async def test_a_line_is_kept_again_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "open", _no_room)
        kept.now("one\0")
        kept.now("one\0two")
    assert [each.partition(":")[0] for each in kept.said] == ["The line you type is not kept"]
    assert not kept.file.exists()

    kept.now("one\0two\0")
    assert kept.file.read_text() == "one\0two\0"
    await kept.draft.close()


def _no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_command_that_was_entered_is_never_unsent() -> None:
    editor = Typed().editor
    editor.buffer.text = "/undo"
    editor.send()

    assert editor.unsent() == ""


def test_a_command_too_long_for_the_history_is_unsent_until_it_has_arrived() -> None:
    editor = Typed().editor
    command = f"/queue {'x' * 30_000}"
    editor.replace(command)
    line = editor.send()
    assert editor.unsent() == f"{command}\0"

    editor.arrived(line)
    assert editor.unsent() == ""
