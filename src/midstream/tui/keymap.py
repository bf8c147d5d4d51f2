"""The keys and the lines a person may type, as one table.

The bindings (`tui.keys`), what `?` and `/help keys` print and the page `docs/keys.md` are all
made of it, so that they cannot differ: `python -m midstream.tui.keymap > docs/keys.md`. Pure.

To add a key: a row here, its handler in `keys.handlers`, and what it does in the interface.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.views.cells import two_columns

When: TypeAlias = Literal[
    "empty",
    "text",
    "no_menu",
    "vi_done",
    "approval",
    "decides",
    "unclear",
    "queues",
    "card",
    "picks",
    "rests",
    "returned",
    "writes",
]
"""When a key means what its row says, besides never while the history is searched."""

WHEN: Final[Mapping[When, str]] = {
    "empty": "on an empty line",
    "text": "with text in the line",
    "no_menu": "",
    "vi_done": "",
    "writes": "",
    "approval": "on an empty line, a call waiting",
    "decides": "on an empty line, a call waiting",
    "unclear": "when asked about a line",
    "queues": "with text, while something runs and nothing is to complete",
    "card": "at a question's list or form, on an empty line",
    "picks": "at a list of which several may be picked",
    "rests": "on an empty line, while nothing runs or is open",
    "returned": "after a line that came back, not edited yet",
}
"""The words for it, none where they would only confuse. `keys` tells how each is found out."""

Group: TypeAlias = Literal["Sending", "Writing", "Stopping", "Going back", "Reading", "Deciding"]


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What a key does at a certain time.

    `name` is for people, such as `Alt-Enter`. `keys` are prompt_toolkit's names of it, each a
    sequence such as `("escape", "enter")`; several are several keys that do the same. `action`
    names the handler in `keys.handlers`; "" where prompt_toolkit's own editing has the key already.
    It has its meaning only if all of `when` hold. `plain` is another way to the same, for terminals
    that cannot tell the key from others.
    """

    group: Group
    name: str
    does: str
    keys: tuple[tuple[str, ...], ...] = ()
    action: str = ""
    when: tuple[When, ...] = ()
    plain: str = ""


CTRL_ENTER: Final = "c-f24"
"""What prompt_toolkit is told that key is (`tui.toolkit_keys`)."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a line that begins like this, or a word in it, is for."""

    line: str
    does: str


KEYMAP: Final[tuple[Key, ...]] = (
    Key(
        group="Sending",
        name="Enter",
        keys=(("enter",),),
        action="send",
        does="send; the bottom line says what that does now",
    ),
    Key(
        group="Sending",
        name="Tab",
        keys=(("tab",),),
        action="queue",
        when=("queues",),
        does="queue the line: it waits until what runs is done",
        plain="`/queue text`",
    ),
    Key(
        group="Sending",
        name="Ctrl-Enter",
        keys=((CTRL_ENTER,),),
        action="steer",
        does="let the line join the running turn, which hears it with its next request",
        plain="`/steer text`",
    ),
    Key(
        group="Writing",
        name="Alt-Enter",
        keys=(("escape", "enter"), ("c-j",)),
        action="new_line",
        does="a new line; pasted lines never send",
        plain="Ctrl-J, or `\\` and Enter",
    ),
    Key(
        group="Writing",
        name="Tab",
        keys=(("tab",),),
        action="next_question",
        when=("empty",),
        does="mark the next question",
        plain="`#2 text` answers question 2",
    ),
    Key(
        group="Writing",
        name="Tab",
        keys=(("tab",),),
        action="complete",
        when=("text",),
        does="complete, as far as it is certain; again: the next choice",
    ),
    Key(
        group="Writing",
        name="Backspace",
        keys=(("backspace",), ("c-h",)),
        action="backspace",
        does="delete the character before the cursor, a folded paste or a picture as a whole",
    ),
    Key(
        group="Writing",
        name="Paste",
        keys=(("<bracketed-paste>",),),
        action="paste",
        does="insert the text; a long one is folded into `[pasted 214 lines #1]` and sent whole; the path "
        "of a picture that was dropped here becomes the picture",
    ),
    Key(
        group="Writing",
        name="Ctrl-V",
        keys=(("c-v",),),
        action="paste_picture",
        when=("writes",),
        does="insert the picture in the clipboard, or its text",
        plain="`@shot.png`",
    ),
    Key(
        group="Writing",
        name="/",
        keys=(("/",),),
        action="begin_anew",
        when=("returned",),
        does="begin a command in its place; Up brings it again",
    ),
    Key(
        group="Writing",
        name="Ctrl-T",
        keys=(("c-t",),),
        action="unfold",
        does="show a folded paste, or the output of a command, in full in the line",
        plain="Ctrl-G shows it in the editor",
    ),
    Key(
        group="Writing",
        name="Ctrl-G",
        keys=(("c-g",),),
        action="edit_outside",
        does="open the line in `$VISUAL` or `$EDITOR`; what goes on meanwhile is shown afterwards",
    ),
    Key(
        group="Writing",
        name="Alt-!",
        keys=(("escape", "!"),),
        action="join_output",
        does="put the output of the last `!command` into the line; nothing is sent by itself",
        plain="`!` and Enter, or Enter on the offer",
    ),
    Key(
        group="Going back",
        name="Esc Esc",
        keys=(("escape",),),
        action="go_back",
        when=("vi_done", "rests"),
        does="list the last turns; Enter goes back to before the marked one, its words in the line",
        plain="`/back 2`",
    ),
    Key(
        group="Stopping",
        name="Esc",
        keys=(("escape",),),
        action="escape",
        when=("vi_done",),
        does="stop the running turn, keep everything shown, hold",
        plain="`/stop`",
    ),
    Key(
        group="Stopping",
        name="Ctrl-C",
        keys=(("c-c",),),
        action="interrupt",
        does="clear the line; on an empty line stop the turn; again: leave",
    ),
    Key(
        group="Stopping",
        name="Ctrl-D",
        keys=(("c-d",),),
        action="leave",
        when=("empty",),
        does="leave; runs are kept",
        plain="`/exit`",
    ),
    Key(
        group="Stopping",
        name="Ctrl-Z",
        keys=(("c-z",),),
        action="stay",
        does="not used: it would stop every run; leave instead, `midstream --continue` returns",
    ),
    Key(
        group="Deciding",
        name="Up, Down",
        keys=(("up",), ("down",)),
        action="arrow",
        when=("no_menu", "card"),
        does="mark a choice, Enter takes it; in a form to the field before or after",
        plain="a number, or the words",
    ),
    Key(
        group="Deciding",
        name="Arrows",
        keys=(("up",), ("down",), ("left",), ("right",)),
        action="mark",
        when=("no_menu", "decides"),
        does="mark a choice, Enter takes it; any other key unmarks it",
        plain="`y` `r` `n` `w` `e`",
    ),
    Key(
        group="Deciding",
        name="Space",
        keys=((" ",),),
        action="pick",
        when=("picks",),
        does="pick the marked choice, or unpick it",
        plain="`1 3` picks both",
    ),
    Key(
        group="Going back",
        name="Up, Ctrl-P",
        keys=(("up",), ("c-p",)),
        action="up",
        when=("no_menu",),
        does="the line above, else an earlier line; on an empty line first what waits or came back",
    ),
    Key(
        group="Going back",
        name="Down, Ctrl-N",
        does="the line below, else a later line of the history",
    ),
    Key(
        group="Going back",
        name="Ctrl-R",
        does="search the history, of earlier sessions too; again: further back, Enter takes it",
    ),
    Key(
        group="Deciding",
        name="Shift-Tab",
        keys=(("s-tab",),),
        action="next_mode",
        when=("no_menu",),
        does="change the permission mode: ask, auto, plan; from the next call on",
        plain="`/permissions auto`",
    ),
    Key(
        group="Reading",
        name="?",
        keys=(("?",),),
        action="show_keys",
        when=("empty",),
        does="show the keys",
        plain="`/help keys`",
    ),
    Key(
        group="Reading",
        name="Ctrl-O",
        keys=(("c-o",),),
        action="show_last",
        does="show the last tool result or reasoning in full; again: the one before",
        plain="`/last`; `/verbose on` for all",
    ),
    Key(
        group="Reading",
        name="Ctrl-L",
        keys=(("c-l",),),
        action="redraw",
        does="redraw the screen",
    ),
    Key(
        group="Deciding",
        name="a n e",
        keys=(("a",), ("n",), ("e",)),
        action="choose",
        when=("unclear",),
        does="it is the answer, it is a new instruction, keep editing",
    ),
    Key(
        group="Deciding",
        name="y r n w e",
        keys=(("y",), ("r",), ("n",), ("w",), ("e",), ("a",)),
        action="decide",
        when=("approval",),
        does="once, for this run, no, no and say why, change the command first; of a plan y is yes "
        "in ask, and `a` yes in auto",
    ),
)
"""All keys. Where several rows of one key may apply, the first one does."""

BEGINNINGS: Final[tuple[Beginning, ...]] = (
    Beginning(line="/command", does="a command, at any moment; `/help` lists them"),
    Beginning(line="//text", does="a text that starts with a slash"),
    Beginning(line="#2 text", does="answers question 2"),
    Beginning(line="@name text", does="to one branch or agent alone, others go on"),
    Beginning(
        line="@path",
        does="names a file or folder, anywhere in a line; agents open it themselves, and see a picture",
    ),
    Beginning(
        line="!command", does="runs in your own shell; its output is offered, never sent unasked"
    ),
    Beginning(line="!!text", does="a text that starts with an exclamation mark"),
)

_GROUPS: Final[tuple[Group, ...]] = (
    "Sending",
    "Writing",
    "Going back",
    "Stopping",
    "Deciding",
    "Reading",
)


def keys_text(width: int = 80) -> str:
    """Return the keys as plain lines for a terminal of so many columns."""
    rows = [(row.name, _plain(_sentence(row))) for row in _sorted()]
    rows += [("", "")]
    rows += [(row.line, _plain(row.does)) for row in BEGINNINGS]
    return two_columns(rows, width=width)


def keys_page() -> str:
    """Return the page `docs/keys.md`."""
    found = [_PAGE]
    for group in _GROUPS:
        rows = [row for row in KEYMAP if row.group == group]
        found.append(f"\n## {group}\n\n| key | when | does | or |\n| --- | --- | --- | --- |\n")
        found += [f"| {' | '.join(_cells(row))} |\n" for row in rows]
    found.append("\n## Lines\n\n| a line | is |\n| --- | --- |\n")
    found += [f"| `{row.line}` | {row.does} |\n" for row in BEGINNINGS]
    return "".join(found)


_PAGE: Final = """\
# The keys

Where several rows of one key may apply, the first one does. `?` on an empty line and `/help keys` show
the same table. Every key that some terminals cannot tell from another has a plain way beside it.
"""


def _sorted() -> Sequence[Key]:
    return [row for group in _GROUPS for row in KEYMAP if row.group == group]


def _cells(row: Key) -> tuple[str, ...]:
    return (f"`{row.name}`", _when(row), row.does, row.plain)


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
