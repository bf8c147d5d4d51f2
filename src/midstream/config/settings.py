"""application.json: what may stand in it, read without ever failing, edited without losing a comment."""

from collections.abc import Mapping
from typing import Final

from midstream.config.budget import BUDGET, read_budget
from midstream.config.editing_mode import EDITING, read_editing
from midstream.config.notifications import NOTIFICATIONS, read_notifications
from midstream.config.permission_rules import (
    PERMISSION_MODE,
    PERMISSIONS,
    lost_rules,
    read_permission_mode,
    read_permissions,
)
from midstream.language.errors import UserMistake, clip
from midstream.language.json_text import Member, Node
from midstream.language.names import Json, Mode
from midstream.language.problem import Problem, Report
from midstream.language.shape import fit, read_file, shown

CURRENT_MODE: Final = "currentMode"
DEFAULT_ROLE: Final = "defaultRole"
MODELS: Final = "models"
LEVELS: Final = ("base", "smart", "fast")
MODEL_KEYS: Final = tuple(f"{MODELS}.{level}" for level in LEVELS)
PATIENCE: Final = "modelPatience"
ATTEMPTS: Final = "attempts"
PATIENCE_PARTS: Final = ("firstByteSeconds", "silenceSeconds", "totalSeconds", ATTEMPTS)
AUTO_RESUME: Final = "autoResume"
KEYS: Final = (
    CURRENT_MODE,
    AUTO_RESUME,
    PERMISSION_MODE,
    EDITING,
    NOTIFICATIONS,
    *MODEL_KEYS,
    *(f"{PATIENCE}.{part}" for part in PATIENCE_PARTS),
)
"""Every setting, as `ConfigManager.value` names it."""

_TOP = (
    *(CURRENT_MODE, DEFAULT_ROLE, AUTO_RESUME, PERMISSION_MODE, PERMISSIONS, MODELS, PATIENCE),
    *(BUDGET, "mcpServers", EDITING, NOTIFICATIONS),
)
_LONGEST_S: Final = 86_400.0


def read_settings(
    text: str, *, file: str, is_workspace: bool = False
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """Return the settings of a file's text by key (see `KEYS`), and its problems in order.

    A setting with a problem is left out, so that a lower layer's counts; a file that is not JSON
    sets nothing, though rules in it that ask or deny are not simply gone: see `config.permission_rules`.
    A workspace's file may set the mode, and rules that ask or deny: a model decides where the code is
    sent and who pays, and that is the user's to say, as what is allowed is.
    """
    root, report = read_file(text, file)
    if root is None or report.problems:
        return lost_rules() if f'"{PERMISSIONS}"' in text else {}, report.problems
    if root.kind != "object":
        report.error(root, "expected an object {...} of settings.")
    settings: dict[str, str] = {}
    for key, member in root.members.items():
        if key not in _TOP:
            hint = report.near(key, _TOP)
            report.warning(member.node, f'unknown key "{clip(key)}" is ignored.', hint)
        elif key == "mcpServers":
            continue  # `config.mcp_servers` reads them.
        elif key in (MODELS, PATIENCE) and is_workspace:
            report.error(member.node, "a workspace may not choose models; ignored.", _WHY_NOT)
        elif key == MODELS:
            settings |= _models(member.node, report)
        elif key == PATIENCE:
            settings |= _patience(member.node, report)
        elif key == BUDGET:
            settings |= read_budget(member.node, report)
        elif key == PERMISSIONS:
            settings |= read_permissions(member.node, report, is_workspace=is_workspace)
        elif key == PERMISSION_MODE and is_workspace:
            report.error(member.node, "a workspace may not set the permission mode; ignored.", _OWN)
        elif key == PERMISSION_MODE:
            settings |= read_permission_mode(member.node, report)
        elif key == EDITING and is_workspace:
            report.error(member.node, "a workspace may not change the keys; ignored.", _OWN)
        elif key == EDITING:
            settings |= read_editing(member.node, report)
        elif key == NOTIFICATIONS and is_workspace:
            report.error(member.node, "a workspace may not set notifications; ignored.", _OWN)
        elif key == NOTIFICATIONS:
            settings |= read_notifications(member.node, report)
        elif key == AUTO_RESUME and is_workspace:
            report.error(
                member.node, "a workspace may not make runs resume by themselves; ignored.", _OWN
            )
        elif key == AUTO_RESUME:
            if fit(member.node, bool, report):
                settings[AUTO_RESUME] = "true" if member.node.value else "false"
        elif key == CURRENT_MODE or CURRENT_MODE not in root.members:
            settings |= _mode(member, report)
    return settings, report.problems


_WHY_NOT = (
    "They decide where code is sent and what it costs: set them in your own application.json."
)

_OWN = "Set it in your own application.json."


def _mode(member: Member, report: Report) -> dict[str, str]:
    node = member.node
    if not fit(node, str, report):
        return {}
    text: str = node.value if member.key == CURRENT_MODE else f"role:{node.value}"
    try:
        mode = str(Mode.parse(text))
    except UserMistake as error:
        report.error(node, error.what, error.hint)
        return {}
    if member.key == DEFAULT_ROLE:
        read_as = f'"{DEFAULT_ROLE}" is the older name of "{CURRENT_MODE}": read as "{mode}".'
        report.warning(node, read_as)
    return {CURRENT_MODE: mode}


def _models(node: Node, report: Report) -> dict[str, str]:
    if node.kind != "object":
        report.error(node, 'expected an object {"base": ..., "smart": ..., "fast": ...}.')
    found: dict[str, str] = {}
    for level, member in node.members.items():
        if level not in LEVELS:
            hint = report.near(level, LEVELS)
            report.error(member, f'there is no level "{clip(level)}"; ignored.', hint)
        elif fit(member.node, str, report):
            if member.node.value.strip():
                found[f"{MODELS}.{level}"] = member.node.value.strip()
            else:
                report.error(member.node, 'expected a model such as "openai:gpt-5", found "".')
    return found


def _patience(node: Node, report: Report) -> dict[str, str]:
    if node.kind != "object":
        report.error(node, 'expected an object {"firstByteSeconds": ..., "attempts": ...}.')
    found: dict[str, str] = {}
    for part, member in node.members.items():
        if part not in PATIENCE_PARTS:
            hint = report.near(part, PATIENCE_PARTS)
            report.error(member, f'there is no "{clip(part)}" here; ignored.', hint)
        elif part == ATTEMPTS:
            if fit(member.node, int, report) and _within(member.node, 1, 100, report):
                found[f"{PATIENCE}.{part}"] = str(member.node.value)
        elif fit(member.node, float, report) and _within(member.node, 0.01, _LONGEST_S, report):
            found[f"{PATIENCE}.{part}"] = str(member.node.value)
    return found


def _within(node: Node, least: float, most: float, report: Report) -> bool:
    if least <= node.value <= most:
        return True
    report.error(node, f"expected a number from {least:g} to {most:g}, found {shown(node)}.")
    return False


def with_mode(text: str, mode: Mode | None) -> str | None:
    """Return a file's text with the mode set and everything else as it was, comments included.

    A mode None takes it out. Returned is None if the text is no object of settings, and cannot be
    edited without losing something.
    """
    from midstream.config.setting_text import with_value, without_value  # not needed at the start

    if mode is None:
        return without_value(text, (CURRENT_MODE,))
    return with_value(text, (CURRENT_MODE,), str(mode), older=DEFAULT_ROLE)


def for_every_level(model: str) -> Mapping[str, Json]:
    """Return the settings that make every level use one model."""
    return dict.fromkeys(MODEL_KEYS, model)
