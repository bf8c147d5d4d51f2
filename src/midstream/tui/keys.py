"""The bindings of the keys: `views.key_table` says which and when, here is what each of them does.

What Enter does is in `enter_keys`, what keys do where something stands open over the line in
`approval_keys` and `card_keys`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from prompt_toolkit.filters import (
    Condition,
    Filter,
    has_completions,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
    vi_replace_mode,
    vi_selection_mode,
)
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from midstream.core.pictures import mark_before
from midstream.language.errors import MidstreamError
from midstream.safety.sanitize import scrubbed
from midstream.tui import approval_keys, card_keys, enter_keys
from midstream.tui.cards import OF_A_CALL, OF_A_LINE, OF_A_PLAN
from midstream.tui.dialog import Writing
from midstream.tui.keymap import called, keys_text, table
from midstream.tui.prompt import Prompt, now
from midstream.tui.terminal_replies import is_alone, may_allow
from midstream.views.key_table import When

Handler: TypeAlias = Callable[[KeyPressEvent], object]

_STAYS: Final = (
    "Ctrl-Z would stop every run. Ctrl-D on an empty line leaves, `midstream --continue` "
    "comes back."
)


def bindings(at: Prompt) -> KeyBindings:
    """Return the console's own bindings, from the table of keys; they go before prompt_toolkit's."""
    bound = KeyBindings()
    found, times = handlers(at), _times(at)
    # Of several bindings that apply, prompt_toolkit takes the last one.
    for row in reversed(table()):
        applies: Filter = ~is_searching
        for when in row.when:
            applies &= times[when]
        for sequence in row.keys if row.action else ():
            bound.add(*sequence, filter=applies)(found[row.action])
    is_early = Condition(lambda: came_back_under(at))
    bound.add(Keys.Any, filter=~is_searching & is_early)(found["begin_anew"])
    # In a search, too, these are no characters, and mean the same.
    bound.add("c-z", filter=is_searching)(lambda _: None)
    bound.add("c-l", filter=is_searching)(lambda _: redraw(at))
    return bound


def handlers(at: Prompt) -> dict[str, Handler]:
    """Return what the keys do, by the name their rows in the table have for it."""
    editor = at.editor

    def send(event: KeyPressEvent) -> None:
        if not editor.continues():
            enter_keys.send(at, alone=is_alone(event), quiet=may_allow(event))

    def leave_menu_or_escape(_: KeyPressEvent) -> None:
        if editor.buffer.complete_state is not None:
            editor.buffer.cancel_completion()
        else:
            escape(at)

    def type(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            editor.insert(event.data)

    def deciding(choice: str) -> Handler:
        def decide(event: KeyPressEvent) -> None:
            is_own = is_alone(event) if choice in approval_keys.REFUSING else may_allow(event)
            if approval_keys.takes(at, choice) and approval_keys.may_decide(at, alone=is_own):
                approval_keys.decide(at, choice)
            else:
                type(event)

        return decide

    def choosing(choice: str) -> Handler:
        def choose(event: KeyPressEvent) -> None:
            if enter_keys.may_choose(at, alone=is_alone(event)):
                enter_keys.choose(at, choice)
            else:
                type(event)

        return choose

    def arrow(event: KeyPressEvent) -> None:
        card_keys.arrow(at, -1 if event.key_sequence[0].key == Keys.Up else 1)

    def mark(event: KeyPressEvent) -> None:
        key = event.key_sequence[0].key
        if key == Keys.Up and card_keys.brings_back(at) and at.dialog.was_marked is None:
            card_keys.up(at)
        else:
            step = -1 if key in (Keys.Up, Keys.Left) else 1
            approval_keys.arrow(at, step, alone=is_alone(event))

    return {
        "send": send,
        "queue": lambda event: enter_keys.queue(at, alone=is_alone(event)),
        "steer": lambda event: enter_keys.steer(at, alone=is_alone(event), quiet=may_allow(event)),
        "arrow": arrow,
        "mark": mark,
        "pick": lambda _: card_keys.pick(at),
        "new_line": lambda _: editor.new_line(),
        "escape": leave_menu_or_escape,
        "go_back": lambda _: card_keys.go_back(at),
        "interrupt": lambda _: interrupt(at),
        "leave": lambda _: at.leaving.leave(),
        "stay": lambda _: stay(at),
        "up": lambda _: card_keys.up(at),
        "next_question": lambda _: card_keys.next_question(at),
        "complete": lambda _: editor.complete(),
        "next_mode": lambda event: next_mode(at, alone=may_allow(event)),
        "backspace": lambda _: editor.backspace(),
        "begin_anew": lambda event: editor.begin_anew(event.data),
        "paste": lambda event: paste(at, event.data),
        "paste_picture": lambda _: paste_clipboard(at),
        "show_keys": lambda event: show_keys(at, event.data),
        "show_last": lambda _: at.scrollback.add(at.renderer.last_in_full()),
        "redraw": lambda _: redraw(at),
        "unfold": lambda _: unfold(at),
        "edit_outside": lambda _: at.outside.open(),
        "join_output": lambda _: at.own.join(),
        **{each.action: deciding(each.letter) for each in (*OF_A_CALL, *OF_A_PLAN)},
        **{each.action: choosing(each.letter) for each in OF_A_LINE},
    }


def _times(at: Prompt) -> dict[When, Filter]:
    is_empty = Condition(lambda: at.editor.is_empty)
    return {
        "empty": is_empty,
        "text": ~is_empty,
        "no_menu": ~has_completions,
        # Among vi's commands the key begins to mark a block.
        "writes": ~(vi_navigation_mode | vi_selection_mode),
        # In vi keys Esc first ends what is being typed; only then it is ours.
        "vi_done": ~(vi_insert_mode | vi_replace_mode | vi_selection_mode) | has_completions,
        "queues": Condition(lambda: enter_keys.queues(at)),
        "card": Condition(lambda: card_keys.takes_arrows(at)),
        "picks": Condition(lambda: card_keys.may_pick(at)),
        "rests": Condition(lambda: card_keys.rests(at)),
        "returned": Condition(lambda: at.editor.has_returned),
        # That the key is a fresh one is asked when it is pressed: it is typed where it is not.
        "approval": is_empty,
        "decides": Condition(lambda: approval_keys.may_decide(at, alone=True)),
        "unclear": Condition(lambda: enter_keys.may_choose(at, alone=True)),
    }


# --- Esc and Ctrl-C: each press does one thing, the nearest ---------------------------------------


def escape(at: Prompt) -> None:
    """Close what is open over the editor, else stop the turn."""
    if card_keys.close_turns(at):
        at.scrollback.redraw()
        return
    if isinstance(at.dialog.over, Writing) and at.dialog.over.what != "note":
        at.editor.clear()
    if at.dialog.recalled and at.dialog.recalled == at.editor.buffer.text:
        at.editor.clear()
        at.scrollback.say("Withdrawn. The history still has it.", kind="note")
    elif card_keys.leave_card(at) or at.dialog.unmark():
        at.scrollback.redraw()
    elif at.dialog.over is not None:
        at.dialog.over = None
        at.scrollback.redraw()
    elif at.own.is_running:
        at.own.stop()
        at.scrollback.redraw()
    elif at.is_busy:
        if card_keys.number_of(at):
            at.editor.drop()
        _halt(at)
    elif at.own.drop():
        at.scrollback.redraw()
    elif at.editor.is_empty and at.can_withdraw:
        at.delivery.withdraw()


def interrupt(at: Prompt) -> None:
    """Clear the line; on an empty one stop the turn and offer to leave; then leave."""
    if not at.editor.is_empty:
        at.dialog.over = None
        at.editor.clear()
    elif at.own.is_running:
        at.own.stop()
    elif card_keys.close_turns(at) or _leaves_form(at):
        at.scrollback.redraw()
    elif at.dialog.leave_offered:
        at.leaving.leave()
    else:
        at.dialog.over = None
        at.leaving.offer()
        if at.is_busy:
            _halt(at)


def _leaves_form(at: Prompt) -> bool:
    return bool(at.dialog.answering.filling) and card_keys.leave_card(at)


def _halt(at: Prompt) -> None:
    at.background.begin_guarded(at.session.halt())


# --- the keys beside the line: they send nothing --------------------------------------------------


def next_mode(at: Prompt, *, alone: bool) -> None:
    """Let the next permission mode say what happens unasked; a key among pasted ones does not."""
    if alone and at.has_paused():
        try:
            at.dialog.news = at.session.next_permission_mode()
        except MidstreamError as error:
            at.scrollback.say(str(error), kind="warning")
        at.scrollback.redraw()


def paste(at: Prompt, text: str) -> None:
    """Insert pasted text; the path of a picture becomes its mark once it has been looked at."""
    if not text:
        # What some terminals send where the clipboard holds no text.
        paste_clipboard(at, is_asked=False)
        return
    if came_back_under(at):
        at.editor.begin_anew("")
    at.editor.paste(text)
    if text.startswith(_PATHS_BEGIN) and "\n" not in text.strip():
        at.background.begin_guarded(_dropped(at, text))


def came_back_under(at: Prompt) -> bool:
    """Return whether a line came back so lately that what is typed now was begun on an empty one."""
    editor = at.editor
    return editor.has_returned and not at.dialog.is_fresh(editor.came_back, now=now())


_PATHS_BEGIN: Final = ("/", "'", '"', "file://")
"""How terminals write the path of a file that was dropped on them."""


async def _dropped(at: Prompt, text: str) -> None:
    if mark := await at.session.picture(text):
        at.editor.swap(scrubbed(text), mark)


def paste_clipboard(at: Prompt, *, is_asked: bool = True) -> None:
    """Insert what the clipboard holds, once it has been read, where the cursor stands now."""
    before = at.editor.buffer.document.text_before_cursor
    at.background.begin_guarded(_from_clipboard(at, before, is_asked=is_asked))


async def _from_clipboard(at: Prompt, before: str, *, is_asked: bool) -> None:
    try:
        found = await at.session.clipboard()
    except MidstreamError:
        if is_asked:
            raise
        return
    at.editor.paste_behind(before, f"{found} " if mark_before(found) == found else found)


def show_keys(at: Prompt, typed: str) -> None:
    """Print the keys; what was typed for it is a character where something is open over the line."""
    if at.dialog.is_open and typed.isprintable():
        at.editor.insert(typed)
    else:
        at.scrollback.say(keys_text(at.display.width() - 2))


def stay(at: Prompt) -> None:
    """Say why the console does not stop for a while; once of a key that is held down."""
    if at.dialog.before != "stayed":
        at.scrollback.say(_STAYS, kind="note")
    at.dialog.did = "stayed"


def redraw(at: Prompt) -> None:
    """Draw everything anew, on an empty screen."""
    at.display.clear()
    at.covered()


def unfold(at: Prompt) -> None:
    """Put the whole text in the place of the label at the cursor."""
    if not at.editor.unfold():
        words = f"That is too long for the line: {called('edit_outside')} opens it in your editor."
        at.scrollback.say(words, kind="note")
