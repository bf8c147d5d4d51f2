"""What a person can choose for a session in their editor: who is spoken to, the permission mode, the model,
and what words do in mid-turn.
"""

from collections.abc import Sequence
from typing import Final, get_args

from midstream.agents import acp_messages as m
from midstream.api.controls import Controls
from midstream.language.names import Policy
from midstream.tools.permissions import SWITCHABLE

MODE: Final = "mode"
MODEL: Final = "model"
ON_INPUT: Final = "on_input"
TALKS_TO: Final = "talks_to"

BY_STATE: Final = "as the workflow says"
MAX_MODELS: Final = 200

_MODES: Final = {
    "plan": ("Plan", "Reads only, and proposes a plan"),
    "ask": ("Ask", "Asks before it changes or runs something"),
    "auto": ("Auto", "Changes files here, and runs commands in the sandbox, without asking"),
    "full": ("Full", "Asks nothing: as it was started"),
}
_POLICIES: Final = {
    "interrupt": "They halt what is being done",
    "steer": "They join the next request of the turn",
    "queue": "They wait for the turn to end",
    "reject": "They are refused",
}


def modes_of(controls: Controls) -> m.SessionModeState:
    """Return the permission modes a session can go to. Nothing leads to `full` but the start."""
    now = controls.permission_mode
    ids = (now,) if controls.is_untrusted else tuple(dict.fromkeys((*SWITCHABLE, now)))
    modes = (m.SessionMode(id=id, name=_MODES[id][0], description=_MODES[id][1]) for id in ids)
    return m.SessionModeState(current_mode_id=now, available_modes=tuple(modes))


def options_of(
    controls: Controls, *, policy: Policy | None, talks_to: str, may_talk_to: tuple[str, ...]
) -> tuple[m.ConfigSelect, ...]:
    """Return the options of a session as they are now.

    Args:
        controls: those of its engine.
        policy: what words in mid-turn do, None: as the state says.
        talks_to: the role or workflow it talks to.
        may_talk_to: those it could, while nothing was said yet.
    """
    modes = modes_of(controls)
    modes_rows = [(each.id, each.name, each.description) for each in modes.available_modes]
    policies = [(name, name.capitalize(), _POLICIES[name]) for name in get_args(Policy)]
    return (
        _select(MODE, "Permissions", modes.current_mode_id, modes_rows, category="mode"),
        _select(
            MODEL,
            "Model",
            controls.model,
            [(name, name, None) for name in controls.models()[:MAX_MODELS]],
            category="model",
        ),
        _select(
            ON_INPUT,
            "Words in mid-turn",
            policy or BY_STATE,
            [(BY_STATE, "As the workflow says", "Mostly they halt what is being done"), *policies],
        ),
        _select(
            TALKS_TO,
            "Talks to",
            talks_to,
            [(name, name, None) for name in dict.fromkeys((talks_to, *may_talk_to))],
        ),
    )


def _select(
    id: str,
    name: str,
    now: str,
    rows: Sequence[tuple[str, str, str | None]],
    *,
    category: str | None = None,
) -> m.ConfigSelect:
    return m.ConfigSelect(
        id=id,
        name=name,
        current_value=now,
        category=category,
        options=tuple(m.SelectOption(value=v, name=n, description=d) for v, n, d in rows),
    )
