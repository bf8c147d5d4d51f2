"""The todo list above the prompt: two rows at most, what is being done first, on any width."""

import pytest

from midstream.core.todo import TodoItem, TodoStatus
from midstream.tui.frame_rows import todo_rows
from midstream.views.cells import width_of
from midstream.views.todo_list import todo_lines


def item(text: str, status: TodoStatus = "pending") -> TodoItem:
    return TodoItem(text=text, status=status)


def shown(*items: TodoItem, width: int = 60, height: int = 2) -> list[str]:
    return [
        "".join(text for _, text in row) for row in todo_rows(items, width=width, height=height)
    ]


LIST = (
    item("Read", "done"),
    item("Test"),
    item("Parse", "doing"),
    item("Print"),
    item("Say it"),
)


def test_what_is_being_done_stands_first_and_what_comes_then_below() -> None:
    assert shown(*LIST) == ["☐ 1/5 · Parse", "  then: Test · Print · +1"]
    assert shown(*LIST, height=1) == ["☐ 1/5 · Parse"]
    assert shown(*LIST, height=0) == []


def test_a_list_with_nothing_left_to_do_is_not_shown() -> None:
    assert shown() == []
    assert shown(item("Read", "done")) == []


@pytest.mark.parametrize("width", [1, 4, 10, 20, 40, 80])
def test_a_hostile_item_takes_no_more_than_its_row(width: int) -> None:
    hostile = item("字" * 60 + "\n\x1b[2J\x07" + "‮x")
    rows = shown(hostile, hostile, hostile, hostile, width=width)

    assert len(rows) <= 2
    assert all("\x1b" not in row and "\n" not in row for row in rows)
    assert all(width_of(row) <= max(width, 4) for row in rows)


def test_the_whole_list_is_numbered_as_it_is_changed() -> None:
    assert todo_lines(LIST) == [
        "1  ✓ Read",
        "2  · Test",
        "3  ▸ Parse",
        "4  · Print",
        "5  · Say it",
    ]
