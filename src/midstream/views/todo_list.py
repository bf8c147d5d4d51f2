"""A todo list as people see it: in a few words, and whole. Pure."""

from collections.abc import Sequence
from typing import Final

from midstream.core.routing import living
from midstream.core.run import Run
from midstream.core.todo import TodoItem, TodoStatus

MARKS: Final[dict[TodoStatus, str]] = {"done": "✓", "doing": "▸", "pending": "·"}


def shown_items(run: Run) -> tuple[TodoItem, ...]:
    """Return the list to show of a run: its own, else the first that a branch at work keeps."""
    return next((each.todo.items for each in (run, *living(run)) if each.todo.items), ())


def open_items(items: Sequence[TodoItem]) -> list[TodoItem]:
    """Return what is left to do, what is being done first."""
    doing = [item for item in items if item.status == "doing"]
    return [*doing, *(item for item in items if item.status == "pending")]


def summary_of(items: Sequence[TodoItem]) -> str:
    """Return how far a list is and what comes first in it: `2/5 · Write the parser`."""
    done = sum(item.status == "done" for item in items)
    left = open_items(items)
    return " · ".join([f"{done}/{len(items)}", *(item.text for item in left[:1])])


def todo_lines(items: Sequence[TodoItem]) -> list[str]:
    """Return the whole list, a line an item, numbered as `/todo done N` takes it."""
    width = len(str(len(items)))
    return [f"{n:{width}}  {MARKS[item.status]} {item.text}" for n, item in enumerate(items, 1)]
