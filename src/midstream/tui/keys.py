"""The bindings of the keys: `KEYMAP` says which and when, here is what each of them does."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from prompt_toolkit.filters import (
    Condition,
    Filter,
    has_completions,
    is_searching,
    vi_insert_mode,
    vi_replace_mode,
    vi_selection_mode,
)
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from midstream.tui.approval_keys import REFUSING, ApprovalKeys
from midstream.tui.card_keys import CardKeys
from midstream.tui.cursor_keys import Moving
from midstream.tui.editor import Editor
from midstream.tui.enter_keys import Sending
from midstream.tui.keymap import KEYMAP, When
from midstream.tui.own_shell import OwnShell
from midstream.tui.side_keys import Aside
from midstream.tui.stop_keys import Stopping
from midstream.tui.terminal_replies import is_alone, may_allow
from midstream.tui.turn_keys import TurnKeys


class Actions(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts on which keys; `leave` leaves the console."""

    editor: Editor
    sending: Sending
    stopping: Stopping
    moving: Moving
    approvals: ApprovalKeys
    cards: CardKeys
    turns: TurnKeys
    own: OwnShell
    aside: Aside
    leave: Callable[[], None]


Handler: TypeAlias = Callable[[KeyPressEvent], None]


def bindings(actions: Actions) -> KeyBindings:
    """Return the console's own bindings, from `KEYMAP`; they go before prompt_toolkit's."""
    bound = KeyBindings()
    found, times = handlers(actions), _times(actions)
    # Of several bindings that apply, prompt_toolkit takes the last one.
    for row in reversed(KEYMAP):
        applies: Filter = ~is_searching
        for when in row.when:
            applies &= times[when]
        for sequence in row.keys:
            bound.add(*sequence, filter=applies)(found[row.action])
    # In a search, too, these are no characters, and mean the same.
    bound.add("c-z", filter=is_searching)(lambda _: None)
    bound.add("c-l", filter=is_searching)(lambda _: actions.aside.redraw())
    return bound


def handlers(actions: Actions) -> dict[str, Handler]:
    """Return what the keys do, by the name their rows in `KEYMAP` have for it."""
    editor, sending, aside = actions.editor, actions.sending, actions.aside

    def send(event: KeyPressEvent) -> None:
        if not editor.continues():
            sending.send(alone=is_alone(event), quiet=may_allow(event))

    def escape(event: KeyPressEvent) -> None:
        if editor.buffer.complete_state is not None:
            editor.buffer.cancel_completion()
        else:
            actions.stopping.escape()

    def decide(event: KeyPressEvent) -> None:
        is_own = is_alone(event) if event.data in REFUSING else may_allow(event)
        if actions.approvals.may_decide(alone=is_own):
            actions.approvals.decide(event.data)
        else:
            editor.insert(event.data)

    def choose(event: KeyPressEvent) -> None:
        if sending.may_choose(alone=is_alone(event)):
            sending.choose(event.data)
        else:
            editor.insert(event.data)

    def arrow(event: KeyPressEvent) -> None:
        actions.moving.arrow(-1 if event.key_sequence[0].key == Keys.Up else 1)

    def mark(event: KeyPressEvent) -> None:
        key = event.key_sequence[0].key
        if key == Keys.Up and actions.moving.brings_back and not actions.approvals.is_marked():
            actions.moving.up()
        else:
            step = -1 if key in (Keys.Up, Keys.Left) else 1
            actions.approvals.arrow(step, alone=is_alone(event))

    return {
        "send": send,
        "queue": lambda event: sending.queue(alone=is_alone(event)),
        "steer": lambda event: sending.steer(alone=is_alone(event), quiet=may_allow(event)),
        "arrow": arrow,
        "mark": mark,
        "pick": lambda _: actions.cards.pick(),
        "new_line": lambda _: editor.new_line(),
        "escape": escape,
        "go_back": lambda _: actions.turns.go_back(),
        "interrupt": lambda _: actions.stopping.interrupt(),
        "leave": lambda _: actions.leave(),
        "stay": lambda _: aside.stay(),
        "up": lambda _: actions.moving.up(),
        "next_question": lambda _: actions.moving.next_question(),
        "complete": lambda _: editor.complete(),
        "next_mode": lambda event: aside.next_mode(alone=may_allow(event)),
        "backspace": lambda _: editor.backspace(),
        "begin_anew": lambda event: editor.begin_anew(event.data),
        "paste": lambda event: editor.paste(event.data),
        "show_keys": lambda _: aside.show_keys(),
        "show_last": lambda _: aside.show_last(),
        "redraw": lambda _: aside.redraw(),
        "unfold": lambda _: aside.unfold(),
        "edit_outside": lambda _: aside.edit_outside(),
        "join_output": lambda _: actions.own.join(),
        "decide": decide,
        "choose": choose,
    }


def _times(actions: Actions) -> dict[When, Filter]:
    editor = actions.editor
    is_empty = Condition(lambda: editor.is_empty)
    return {
        "empty": is_empty,
        "text": ~is_empty,
        "no_menu": ~has_completions,
        # In vi keys Esc first ends what is being typed; only then it is ours.
        "vi_done": ~(vi_insert_mode | vi_replace_mode | vi_selection_mode) | has_completions,
        "queues": Condition(actions.sending.may_queue),
        "card": Condition(actions.moving.takes_arrows),
        "picks": Condition(actions.cards.may_pick),
        "rests": Condition(actions.turns.rests),
        "returned": Condition(lambda: editor.has_returned),
        # That the key is a fresh one is asked when it is pressed: it is typed where it is not.
        "approval": is_empty,
        "decides": Condition(actions.approvals.takes_arrows),
        "unclear": Condition(lambda: actions.sending.may_choose(alone=True)),
    }
