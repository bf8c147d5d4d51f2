"""The keys, as data: which key does what, and when it may."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from midstream.console.editor import Editor

Decision: TypeAlias = str
"""One of `y`, `r`, `n`, `w`, `e`: once, for this run, no, no with a note, with another command."""

DECISIONS: Final = "yrnwe"
CHOICES: Final = "ane"


class Actions(Protocol):
    """What the keys act on."""

    editor: Editor

    def send(self, *, alone: bool) -> None:
        """Send the line (or the note, or nothing). `alone`: no other key came with this one."""

    def escape(self) -> None:
        """Close what is open over the editor, else stop the turn."""

    def interrupt(self) -> None:
        """Clear the line, else stop the turn, else leave."""

    def leave(self) -> None:
        """Leave the console."""

    def up(self) -> None:
        """Bring back what was not delivered, else go up."""

    def next_question(self) -> None:
        """Mark the next question."""

    def show_keys(self) -> None:
        """Print the keys."""

    def decide(self, decision: Decision) -> None:
        """Decide on the marked approval."""

    def choose(self, choice: str) -> None:
        """Say what the unclear line is."""

    def may_decide(self, *, alone: bool) -> bool:
        """Return whether a key now is a fresh decision on the marked approval."""

    def may_choose(self, *, alone: bool) -> bool:
        """Return whether a key now is a fresh choice about the unclear line."""


Handler: TypeAlias = Callable[[KeyPressEvent], None]


def bindings(actions: Actions) -> KeyBindings:
    """Return the console's own bindings; they go before prompt_toolkit's."""
    keys = KeyBindings()
    editor = actions.editor
    is_empty = Condition(lambda: editor.is_empty)
    editing = ~is_searching

    def on(key: str | Keys, *more: str, filter: object = editing) -> Callable[[Handler], Handler]:
        return keys.add(key, *more, filter=filter)  # type: ignore[arg-type]

    @on("enter")
    def _enter(event: KeyPressEvent) -> None:
        if not editor.continues():
            actions.send(alone=_is_alone(event))

    @on("escape", "enter")
    @on("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        editor.new_line()

    @on("escape")
    def _escape(event: KeyPressEvent) -> None:
        if editor.buffer.complete_state is not None:
            editor.buffer.cancel_completion()
        else:
            actions.escape()

    @on("c-c")
    def _interrupt(event: KeyPressEvent) -> None:
        actions.interrupt()

    @on("c-d", filter=editing & is_empty)
    def _leave(event: KeyPressEvent) -> None:
        actions.leave()

    @on("up", filter=editing & ~has_completions)
    @on("c-p", filter=editing & ~has_completions)
    def _up(event: KeyPressEvent) -> None:
        actions.up()

    @on("tab", filter=editing & is_empty)
    def _next(event: KeyPressEvent) -> None:
        actions.next_question()

    @on("tab", filter=editing & ~is_empty)
    def _complete(event: KeyPressEvent) -> None:
        editor.complete()

    @on("backspace")
    @on("c-h")
    def _backspace(event: KeyPressEvent) -> None:
        editor.backspace()

    @on(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        editor.paste(event.data)

    @on("?", filter=editing & is_empty)
    def _help(event: KeyPressEvent) -> None:
        actions.show_keys()

    for key in DECISIONS:

        @on(key, filter=editing & is_empty)
        def _decide(event: KeyPressEvent) -> None:
            if actions.may_decide(alone=_is_alone(event)):
                actions.decide(event.data)
            else:
                editor.buffer.insert_text(event.data)

    for key in CHOICES:

        @on(key, filter=editing & Condition(lambda: actions.may_choose(alone=True)))
        def _choose(event: KeyPressEvent) -> None:
            if actions.may_choose(alone=_is_alone(event)):
                actions.choose(event.data)
            else:
                editor.buffer.insert_text(event.data)

    return keys


def _is_alone(event: KeyPressEvent) -> bool:
    """Return whether no further keys came in the same piece of input, as those of a paste do."""
    return not event.key_processor.input_queue
