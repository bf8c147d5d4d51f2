"""Whether, and how, the terminal calls a person who looks elsewhere."""

from typing import Final, Literal, TypeAlias

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.problem import Report
from midstream.language.shape import fit

Notifications: TypeAlias = Literal["off", "bell", "desktop"]
"""How: not at all, by the terminal's bell, by a notification of the desktop."""

NOTIFICATIONS: Final = "notifications"
NOTIFICATION_KINDS: Final[tuple[Notifications, ...]] = ("off", "bell", "desktop")


def read_notifications(node: Node, report: Report) -> dict[str, str]:
    """Return the setting, nothing if it has a problem."""
    if not fit(node, str, report):
        return {}
    if node.value in NOTIFICATION_KINDS:
        return {NOTIFICATIONS: node.value}
    known = ", ".join(NOTIFICATION_KINDS)
    hint = report.near(node.value, NOTIFICATION_KINDS)
    report.error(node, f'expected one of {known}, found "{clip(node.value)}".', hint)
    return {}
