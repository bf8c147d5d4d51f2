"""The keys and the lines a person may type, as one table, and other keys a person may give its actions.

The bindings (`tui.keys`), what `?` and `/help keys` print and the page `docs/keys.md` are all
made of it (`tui.keymap`), so that they cannot differ. Settings are checked against it (`rebound`). Pure.

To add a key: a row here, its handler in `keys.handlers`, and what it does in the interface.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.language.errors import clip, did_you_mean

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

CTRL_ENTER: Final = "c-f24"
"""What prompt_toolkit is told that key is (`tui.toolkit_keys`)."""

Pressed: TypeAlias = tuple[str, ...]
"""A key as prompt_toolkit has it: `("c-t",)`, or `("escape", "x")` with Alt held."""

_NAMED: Final[Mapping[str, str]] = {
    "enter": "enter",
    "tab": "tab",
    "shift-tab": "s-tab",
    "space": " ",
    "esc": "escape",
    "escape": "escape",
    "backspace": "backspace",
    "ctrl-enter": CTRL_ENTER,
    "ctrl-space": "c-@",
    **{
        f"{held}{name}": f"{short}{name}"
        for held, short in (("", ""), ("ctrl-", "c-"), ("shift-", "s-"))
        for name in ("up", "down", "left", "right", "home", "end", "insert", "delete")
    },
    "pageup": "pageup",
    "pagedown": "pagedown",
    **{f"f{number}": f"f{number}" for number in range(1, 13)},
}
_SAME: Final = {"c-m": "enter", "c-i": "tab", "c-h": "backspace", "c-[": "escape"}
"""Keys no terminal tells apart."""

_CHARACTER: Final = re.compile(r"[a-z0-9?]\Z")


def pressed(name: str) -> Pressed | None:
    """Return the key of such a name, such as `Ctrl-T`, as prompt_toolkit has it; None: there is none."""
    text = name.strip()
    if len(text) == 1 and text.isprintable() and text.isascii():
        return (text,)
    lower = text.lower()
    if lower in _NAMED:
        return (_NAMED[lower],)
    if re.fullmatch(r"ctrl-[a-z\\\]^_]", lower):
        key = f"c-{lower[5:]}"
        return (_SAME.get(key, key),)
    if lower.startswith("alt-") and len(text) > 4:
        behind = pressed(text[4:])
        if behind is not None and len(behind) == 1 and behind[0] != "escape":
            return ("escape", *behind)
    return None


Group: TypeAlias = Literal["Sending", "Writing", "Going back", "Stopping", "Deciding", "Reading"]


def _all_pressed(names: Sequence[str]) -> tuple[Pressed, ...]:
    return tuple(key for name in names if (key := pressed(name)) is not None)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What a key does at a certain time.

    `name` is for people, such as `Alt-Enter`. `keys` are prompt_toolkit's names of it, by default those
    that follow from its name; several are several keys that do the same. `action`
    names the handler in `keys.handlers`; "" where prompt_toolkit's own editing has the key already.
    It has its meaning only if all of `when` hold. `plain` is another way to the same, for terminals
    that cannot tell the key from others. `own` is what a person may do about it: give it other keys
    (`free`), any but none (`needed`), more keys besides (`more`), or nothing (`fixed`).
    """

    group: Group
    name: str
    does: str
    keys: tuple[Pressed, ...] = ()
    action: str = ""
    when: tuple[When, ...] = ()
    plain: str = ""
    own: Literal["free", "needed", "more", "fixed"] = "free"

    def __post_init__(self) -> None:
        if not self.keys:
            msgspec.structs.force_setattr(self, "keys", _all_pressed(self.name.split(", ")))


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a line that begins like this, or a word in it, is for."""

    line: str
    does: str


_sends: Final = partial(Key, group="Sending")
_writes: Final = partial(Key, group="Writing")
_goes_back: Final = partial(Key, group="Going back")
_stops: Final = partial(Key, group="Stopping")
_decides: Final = partial(Key, group="Deciding")
_reads: Final = partial(Key, group="Reading")

KEYMAP: Final[tuple[Key, ...]] = (
    _sends(
        name="Enter",
        action="send",
        own="needed",
        does="send; the bottom line says what that does now",
    ),
    _sends(
        name="Tab",
        action="queue",
        when=("queues",),
        does="queue the line: it waits until what runs is done",
        plain="`/queue text`",
    ),
    _sends(
        name="Ctrl-Enter",
        action="steer",
        does="let the line join the running turn, which hears it with its next request",
        plain="`/steer text`",
    ),
    _writes(
        name="Alt-Enter",
        keys=(("escape", "enter"), ("c-j",)),
        action="new_line",
        does="a new line; pasted lines never send",
        plain="Ctrl-J, or `\\` and Enter",
    ),
    _writes(
        name="Tab",
        action="next_question",
        when=("empty",),
        does="mark the next question",
        plain="`#2 text` answers question 2",
    ),
    _writes(
        name="Tab",
        action="complete",
        when=("text",),
        does="complete, as far as it is certain; again: the next choice",
    ),
    _writes(
        name="Backspace",
        keys=(("backspace",), ("c-h",)),
        action="backspace",
        own="fixed",
        does="delete the character before the cursor, a folded paste or a picture as a whole",
    ),
    _writes(
        name="Paste",
        keys=(("<bracketed-paste>",),),
        action="paste",
        own="fixed",
        does="insert the text; a long one is folded into `[pasted 214 lines #1]` and sent whole; the path "
        "of a picture that was dropped here becomes the picture",
    ),
    _writes(
        name="Ctrl-V",
        action="paste_picture",
        when=("writes",),
        does="insert the picture in the clipboard, or its text",
        plain="`@shot.png`",
    ),
    _writes(
        name="/",
        action="begin_anew",
        own="fixed",
        when=("returned",),
        does="begin a command in its place; Up brings it again",
    ),
    _writes(
        name="Ctrl-T",
        action="unfold",
        does="show a folded paste, or the output of a command, in full in the line",
        plain="Ctrl-G shows it in the editor",
    ),
    _writes(
        name="Ctrl-G",
        action="edit_outside",
        does="open the line in `$VISUAL` or `$EDITOR`; what goes on meanwhile is shown afterwards",
    ),
    _writes(
        name="Alt-!",
        action="join_output",
        does="put the output of the last `!command` into the line; nothing is sent by itself",
        plain="`!` and Enter, or Enter on the offer",
    ),
    _goes_back(
        name="Esc Esc",
        keys=(("escape",),),
        action="go_back",
        own="fixed",
        when=("vi_done", "rests"),
        does="list the last turns; Enter goes back to before the marked one, its words in the line",
        plain="`/back 2`",
    ),
    _stops(
        name="Esc",
        action="escape",
        own="more",
        when=("vi_done",),
        does="stop the running turn, keep everything shown, hold",
        plain="`/stop`",
    ),
    _stops(
        name="Ctrl-C",
        action="interrupt",
        own="more",
        does="clear the line; on an empty line stop the turn; again: leave",
    ),
    _stops(
        name="Ctrl-D",
        action="leave",
        own="needed",
        when=("empty",),
        does="leave; runs are kept",
        plain="`/exit`",
    ),
    _stops(
        name="Ctrl-Z",
        action="stay",
        own="fixed",
        does="not used: it would stop every run; leave instead, `midstream --continue` returns",
    ),
    _decides(
        name="Up, Down",
        action="arrow",
        own="fixed",
        when=("no_menu", "card"),
        does="mark a choice, Enter takes it; in a form to the field before or after",
        plain="a number, or the words",
    ),
    _decides(
        name="Arrows",
        keys=(("up",), ("down",), ("left",), ("right",)),
        action="mark",
        own="fixed",
        when=("no_menu", "decides"),
        does="mark a choice, Enter takes it; any other key unmarks it",
        plain="`y` `r` `n` `w` `e`",
    ),
    _decides(
        name="Space",
        action="pick",
        own="fixed",
        when=("picks",),
        does="pick the marked choice, or unpick it",
        plain="`1 3` picks both",
    ),
    _goes_back(
        name="Up, Ctrl-P",
        action="up",
        own="more",
        when=("no_menu",),
        does="the line above, else an earlier line; on an empty line first what waits or came back",
    ),
    _goes_back(name="Down, Ctrl-N", does="the line below, else a later line of the history"),
    _goes_back(
        name="Ctrl-R",
        does="search the history, of earlier sessions too; again: further back, Enter takes it",
    ),
    _decides(
        name="Shift-Tab",
        action="next_mode",
        when=("no_menu",),
        does="change the permission mode: ask, auto, plan; from the next call on",
        plain="`/permissions auto`",
    ),
    _reads(
        name="?", action="show_keys", when=("empty",), does="show the keys", plain="`/help keys`"
    ),
    _reads(
        name="Ctrl-O",
        action="show_last",
        does="show the last tool result or reasoning in full; again: the one before",
        plain="`/last`; `/verbose on` for all",
    ),
    _reads(name="Ctrl-L", action="redraw", does="redraw the screen"),
    _decides(
        name="a", action="is_answer", own="needed", when=("unclear",), does="the line is the answer"
    ),
    _decides(
        name="n",
        action="is_instruction",
        own="needed",
        when=("unclear",),
        does="the line is a new instruction",
    ),
    _decides(name="e", action="keep_editing", when=("unclear",), does="keep editing"),
    _decides(name="y", action="allow", own="needed", when=("approval",), does="yes, once"),
    _decides(name="r", action="allow_for_run", when=("approval",), does="yes, for this run"),
    _decides(name="n", action="deny", own="needed", when=("approval",), does="no"),
    _decides(name="w", action="deny_with_note", when=("approval",), does="no, and say why"),
    _decides(
        name="e", action="change_command", when=("approval",), does="change the command first"
    ),
    _decides(
        name="a",
        action="allow_in_auto",
        when=("approval",),
        does="of a plan: yes, in auto; `y` is yes in ask then",
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


# --- keys of a person's own -----------------------------------------------------------------------


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the keys a person gives an action, which has its own then."""

    action: str
    what: str
    hint: str


KEY_FORMS: Final = "Ctrl-T, Alt-X, F5, Shift-Tab, PageUp, Ctrl-Enter and the like"


def actions() -> dict[str, Key]:
    """Return the actions a person may give keys, each with its first row."""
    found: dict[str, Key] = {}
    for row in KEYMAP:
        if row.action and row.own != "fixed":
            found.setdefault(row.action, row)
    return found


def rebound(wanted: Mapping[str, Sequence[str]]) -> tuple[tuple[Key, ...], tuple[Misfit, ...]]:
    """Return the table with other keys for some actions, and what is wrong with those that keep theirs.

    Of two that want one key the later in `wanted` does not get it. That a key has been another action's is
    nothing wrong if that one has others now.
    """
    misfits: list[Misfit] = []
    taken: dict[str, Sequence[str]] = {}
    for action, names in wanted.items():
        problems = [*_unfit(action, names)]
        misfits += problems[:1]
        if not problems:
            taken[action] = names
    while (clash := _clash(taken)) is not None:
        misfits.append(clash)
        del taken[clash.action]
    return tuple(_with(row, taken) for row in KEYMAP), tuple(misfits)


def _unfit(action: str, names: Sequence[str]) -> Iterator[Misfit]:
    known = actions()
    row = known.get(action)
    if row is None:
        fixed = any(each.action == action for each in KEYMAP)
        what = f'the keys of "{clip(action)}" are fixed' if fixed else f'no action "{clip(action)}"'
        hint = did_you_mean(action, known) or "docs/keys.md lists the actions."
        yield Misfit(action=action, what=f"{what}.", hint=hint)
        return
    if not names and row.own in ("needed", "more"):
        what = f'"{action}" cannot be left without a key: it is needed to {_needed_to(row)}.'
        yield Misfit(action=action, what=what, hint=f"Its own is {row.name}.")
    for name in names:
        if misfit := _misfit(row, name):
            yield Misfit(action=action, what=misfit[0], hint=misfit[1])


def _needed_to(row: Key) -> str:
    ways = {"approval": "decide on calls", "unclear": "say what a line is"}
    return next((ways[when] for when in row.when if when in ways), row.does.partition(";")[0])


def _misfit(row: Key, name: str) -> tuple[str, str] | None:
    key = pressed(name)
    is_letter = bool(_CHARACTER.match(row.name))
    if key is None:
        return f'no key "{clip(name)}".', f"There are {KEY_FORMS}."
    if len(key) == 1 and len(key[0]) == 1 and not (is_letter and _CHARACTER.match(key[0])):
        what = f'"{name}" is a character that is typed; "{row.action}" cannot have it.'
        return what, f"It may have {'a letter a to z, a digit, ' if is_letter else ''}{KEY_FORMS}."
    if "approval" in row.when and not _can_decide(key):
        # One byte, alone, that nothing else comes near: else it could be a part of a paste or of a reply.
        what = f'"{name}" cannot decide on a call.'
        return what, "A letter a to z, a digit, or Ctrl and a letter can."
    return None


def _can_decide(key: Pressed) -> bool:
    return len(key) == 1 and re.fullmatch(r"[a-z0-9]|c-[a-ik-z]", key[0]) is not None


def _clash(taken: Mapping[str, Sequence[str]]) -> Misfit | None:
    """Return the last of the wanted keys that another action has, None where there is none."""
    rows = [(row, _keys_of(row, taken)) for row in KEYMAP]
    for action, names in reversed(list(taken.items())):
        own = [row for row in KEYMAP if row.action == action]
        for name in names:
            key = pressed(name)
            if key is None or any(key in row.keys for row in own):
                continue
            for row, keys in rows:
                if row.action != action and key in keys and _together(own[0], row):
                    called = f'"{row.action}"' if row.action else "the editor"
                    what = f"{name} is the key of {called} already ({row.does.partition(';')[0]})."
                    return Misfit(
                        action=action, what=what, hint="Choose another, or move that one."
                    )
    return None


def _together(one: Key, other: Key) -> bool:
    """Return whether two may apply at the same time: a line that is unclear is not empty."""
    return not ({*one.when, *other.when} >= {"approval", "unclear"})


def _keys_of(row: Key, taken: Mapping[str, Sequence[str]]) -> tuple[Pressed, ...]:
    """Return the keys of a row once some actions have been given others."""
    if row.action not in taken:
        return row.keys
    own = _all_pressed(taken[row.action])
    return tuple(dict.fromkeys((*row.keys, *own))) if row.own == "more" else own


def _with(row: Key, taken: Mapping[str, Sequence[str]]) -> Key:
    if row.action not in taken:
        return row
    names = (row.name, *taken[row.action]) if row.own == "more" else taken[row.action]
    name = ", ".join(dict.fromkeys(names))
    return msgspec.structs.replace(row, name=name, keys=_keys_of(row, taken))
