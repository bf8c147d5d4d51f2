"""The prompt of a session: what its keys act on, and what its last frame showed.

A key may be about the line, about what stands open over it, or about what runs. So whoever takes keys
is given all of these together, and a key's handler is a function of them.
"""

import asyncio
from collections.abc import Callable

import msgspec

from midstream.app.ui import Console
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.delivery import Delivery
from midstream.tui.dialog import Dialog
from midstream.tui.display import Display
from midstream.tui.editor import Editor
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.exit_keys import Leaving
from midstream.tui.external_editor import Outside
from midstream.tui.frame_rows import Screen
from midstream.tui.graph_panel import GraphPanel
from midstream.tui.own_shell import OwnShell
from midstream.tui.own_status import OwnStatus
from midstream.tui.scrollback import Scrollback


class Prompt(msgspec.Struct, kw_only=True, eq=False):
    """A console at a terminal, and the parts that its keys and its frames share.

    `covered` hears that what was drawn is not on the screen any more. `screen` is what the last frame
    showed, None before the first.
    """

    session: Console
    dialog: Dialog
    editor: Editor
    own: OwnShell
    own_status: OwnStatus
    outside: Outside
    delivery: Delivery
    leaving: Leaving
    display: Display
    scrollback: Scrollback
    renderer: EventRenderer
    graph_panel: GraphPanel
    background: BackgroundTasks
    covered: Callable[[], None]
    screen: Screen | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether Esc has a turn to stop."""
        return self.screen is not None and self.screen.status.busy

    @property
    def can_withdraw(self) -> bool:
        """Return whether some line that waits can be taken back."""
        return self.screen is not None and self.screen.can_withdraw

    def has_paused(self) -> bool:
        """Return whether a key that comes now is none of those that typed the line: no paste's last."""
        return self.dialog.has_paused(now())


def now() -> float:
    """Return the time of the running loop, in seconds; it only grows."""
    return asyncio.get_running_loop().time()
