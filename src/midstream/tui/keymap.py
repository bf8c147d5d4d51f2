"""The keys in words: what `?` and `/help keys` print, the page `docs/keys.md`, what a key is called now.

The table itself is `views.key_table`; `python -m midstream.tui.keymap > docs/keys.md` makes the page.
"""

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from midstream.views.cells import two_columns
from midstream.views.key_table import BEGINNINGS, KEYMAP, WHEN, Group, Key, rebound


class _Now:
    """The table as it is now: a process has one keyboard."""

    rows: tuple[Key, ...] = KEYMAP


_now: Final = _Now()


def use(wanted: Mapping[str, Sequence[str]]) -> None:
    """Give actions other keys from now on; those that do not fit keep theirs (the settings say why)."""
    _now.rows = rebound(wanted)[0]


def table() -> tuple[Key, ...]:
    """Return the table as it is now."""
    return _now.rows


_SHORT: Final = {"Enter": "⏎"}


def called(action: str) -> str:
    """Return what the first key of an action is called now, "" where it has none."""
    first = next(row.name for row in _now.rows if row.action == action).partition(", ")[0]
    return _SHORT.get(first, first)


_GROUPS: Final = get_args(Group)


def keys_text(width: int = 80) -> str:
    """Return the keys as they are now, as plain lines for a terminal of so many columns."""
    rows = [(row.name, _plain(_sentence(row))) for row in _sorted(_now.rows) if row.name]
    rows += [("", "")]
    rows += [(row.line, _plain(row.does)) for row in BEGINNINGS]
    return two_columns(rows, width=width)


def keys_page() -> str:
    """Return the page `docs/keys.md`."""
    found = [_PAGE]
    for group in _GROUPS:
        rows = [row for row in KEYMAP if row.group == group]
        found.append(f"\n## {group}\n\n{_HEAD}")
        found += [f"| {' | '.join(_cells(row))} |\n" for row in rows]
    found.append("\n## Lines\n\n| a line | is |\n| --- | --- |\n")
    found += [f"| `{row.line}` | {row.does} |\n" for row in BEGINNINGS]
    return "".join(found)


_HEAD: Final = "| key | when | does | or | action |\n| --- | --- | --- | --- | --- |\n"
_PAGE: Final = """\
# The keys

Where several rows of one key may apply, the first one does. `?` on an empty line and `/help keys` show
the same table. Every key that some terminals cannot tell from another has a plain way beside it.

An action with a name may have other keys ([your own keys](console.md#keys)):
`"keys": {"show_last": "F5", "send": "Ctrl-Enter", "steer": [], "new_line": ["Enter", "Ctrl-J"]}`.
"""


def _sorted(rows: Sequence[Key]) -> Sequence[Key]:
    return [row for group in _GROUPS for row in rows if row.group == group]


def _cells(row: Key) -> tuple[str, ...]:
    action = f"`{row.action}`" if row.action and row.own != "fixed" else ""
    return (f"`{row.name}`", _when(row), row.does, row.plain, action)


def _when(row: Key) -> str:
    return ", ".join(WHEN[when] for when in row.when if WHEN[when])


def _sentence(row: Key) -> str:
    when = _when(row)
    words = f"{when}: {row.does}" if when else row.does
    return f"{words} (or {row.plain})" if row.plain else words


def _plain(words: str) -> str:
    return words.replace("`", "")


if __name__ == "__main__":
    from midstream.system.own_process import write_out

    write_out(keys_page())
