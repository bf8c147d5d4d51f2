"""The todo list of a run: what an agent keeps with the tool `todo`, and a person may change. Pure.

The agent's list is what its last such call was made with, which the journal has anyway. What a person
changes is a fact of its own (`todo_edited`), and a message by which the agent learns of it.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from midstream.language.errors import UserMistake
from midstream.language.names import Json

LIST_TOOL: Final = "todo"
"""The tool by which an agent keeps the list."""

MAX_ITEMS: Final = 50
MAX_CHARS: Final = 200
"""Items a list has at most, and characters of one."""

TodoStatus: TypeAlias = Literal["pending", "doing", "done"]
Action: TypeAlias = Literal["add", "done", "drop"]

USAGE: Final = "/todo add WORDS, /todo done N or /todo drop N."


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One thing to do."""

    text: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_CHARS, description="What is to be done."),
    ]
    status: TodoStatus = "pending"


class Todo(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The list, in its order. `agent` kept it last, "" where only a person has."""

    items: tuple[TodoItem, ...] = ()
    agent: str = ""

    def count(self, status: TodoStatus) -> int:
        """Return how many items are in a status."""
        return sum(item.status == status for item in self.items)


class TodoEdit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One change by a person: words to add, or the number of an item, from 1."""

    action: Action
    text: str = ""
    number: int = 0

    def __str__(self) -> str:
        """Return it as it is typed."""
        return f"{self.action} {self.text or self.number}"


class _Kept(msgspec.Struct, frozen=True, gc=False):
    items: Annotated[tuple[TodoItem, ...], msgspec.Meta(max_length=MAX_ITEMS)]


def kept_items(arguments: dict[str, Json]) -> tuple[TodoItem, ...] | None:
    """Return the list a call was made with; None where its arguments are no list.

    A tool of a person's own may have the same name.
    """
    try:
        return msgspec.convert(arguments, _Kept).items
    except msgspec.ValidationError:
        return None


def parse_edit(line: str) -> TodoEdit:
    """Return the change a person typed: `add WORDS`, `done N` or `drop N`.

    Raises:
        UserMistake: it is none of these.
    """
    word, _, rest = line.strip().partition(" ")
    rest = " ".join(rest.split())
    match word:
        case "add" if 0 < len(rest) <= MAX_CHARS:
            return TodoEdit(action="add", text=rest)
        case "add" if rest:
            raise UserMistake(
                f"An item has at most {MAX_CHARS} characters, this one {len(rest)}.",
                hint="Say it in fewer words.",
            )
        case "done" | "drop" if rest.isascii() and rest.isdecimal() and len(rest) < 4:
            return TodoEdit(action=word, number=int(rest))
    wanted = "words" if word == "add" else "the number of an item"
    what = f"/todo {word} takes {wanted}" if word in get_args(Action) else f"No change: {line!r}"
    raise UserMistake(f"{what}.", hint=USAGE)


def why_not(items: Sequence[TodoItem], edit: TodoEdit) -> str:
    """Return why a change cannot be made of a list, "" if it can."""
    if edit.action == "add":
        return f"the list has {MAX_ITEMS} items already" if len(items) >= MAX_ITEMS else ""
    if not items:
        return "the list is empty"
    if not 1 <= edit.number <= len(items):
        return f"the list has items 1 to {len(items)}"
    is_done = edit.action == "done" and items[edit.number - 1].status == "done"
    return f"item {edit.number} is done already" if is_done else ""


def with_edit(items: tuple[TodoItem, ...], edit: TodoEdit) -> tuple[TodoItem, ...]:
    """Return the list after a change that can be made."""
    at = edit.number - 1
    match edit.action:
        case "add":
            return (*items, TodoItem(text=edit.text))
        case "done":
            return (*items[:at], replace(items[at], status="done"), *items[edit.number :])
        case "drop":
            return (*items[:at], *items[edit.number :])


_DID: Final[dict[Action, str]] = {"add": "added", "done": "marked as done", "drop": "dropped"}


def told_of(before: Sequence[TodoItem], edit: TodoEdit, after: Sequence[TodoItem]) -> str:
    """Return what a model is told of a person's change."""
    words = edit.text or before[edit.number - 1].text
    lines = [f"[I changed the todo list: {_DID[edit.action]} {words!r}."]
    lines[0] += " It is now:" if after else " It is empty now."
    lines += [f"- {item.status}: {item.text}" for item in after]
    return "\n".join(lines) + "]"
