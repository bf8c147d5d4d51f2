"""The user's own application.json, changed a setting at a time: `midstream config` and `/config`.

A value is checked by the reader that reads it at the next start, in the text as it would be then; what
it would say against it is said now, and nothing is written. Only the user's own file is written, never
a workspace's. Secrets are no settings: keys stand in the environment.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from midstream.config.manager import ConfigManager, Setting
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.config.setting_text import with_value, without_value
from midstream.config.settings import (
    BUDGET,
    CURRENT_MODE,
    FEW_VALUES,
    GROUPS,
    KEYS,
    MODEL_KEYS,
    MODELS,
    OWN_KEYS,
    PERMISSION_MODE,
    RATES,
    STATUS_LINE,
    read_settings,
)
from midstream.language.errors import UserMistake, nearest
from midstream.language.json_text import parse
from midstream.language.names import Json
from midstream.language.problem import Problem
from midstream.safety.redaction import Redactor
from midstream.views.key_table import actions

SETTABLE: Final = (
    *KEYS,
    *(RATES, OWN_KEYS, *GROUPS),
    *(f"{group}.{part}" for group, parts in GROUPS.items() for part in parts),
    *(f"{OWN_KEYS}.{action}" for action in actions()),
)
"""Every key a value can be set for. `models` stands for all of its levels."""

_TEXTS: Final = frozenset(
    {
        *(CURRENT_MODE, *MODEL_KEYS),
        *(key for key, values in FEW_VALUES.items() if "true" not in values),
        *(f"{STATUS_LINE}.template", f"{STATUS_LINE}.command"),
    }
)
_SECRET_KEY: Final = re.compile(r"(?i)(key|token|secret|password)s?$")
_LIST: Final = "midstream config lists them."
_LIST_OF_RULES: Final = 'Write a list of rules as ["exec: make test", "write: docs/**"].'


def set_own(config: ConfigManager, key: str, written: str) -> tuple[Setting, ...]:
    """Set a setting in the user's file; return it as it counts now. Waits for the disk.

    `written` is a value as it is typed: JSON, or a text without quotes.

    Raises:
        UserMistake: there is no such setting, the value does not fit, or the file has problems.
        WorldTrouble: it cannot be read or written. In any case the file is then as it was.
    """
    keys = _keys(key)
    if Redactor().redacted(written) != written:
        raise UserMistake(
            f"The value for {key} looks like a secret; it was not written.",
            hint="Secrets are not settings: put them into the environment.",
        )
    old = _text(config)
    text = old
    for each in keys:
        edited = with_value(text, each.split("."), _value(each, written))
        if edited is None and text.strip() and not parse(text).flaws:
            raise UserMistake(
                f"The value for {key} cannot be written into a settings file.",
                hint="Leave out control characters and halves of characters.",
            )
        if edited is None:
            raise _unreadable(config, text)
        text = edited
    _check(config, old, text, keys)
    return _kept(config, old, text, keys)


def unset_own(config: ConfigManager, key: str) -> tuple[Setting, ...]:
    """Take a setting out of the user's file; return what counts now. Waits for the disk.

    Raises:
        UserMistake: there is no such setting, it is not set there, or the file has problems.
        WorldTrouble: as in `set_own`.
    """
    keys = _keys(key)
    old = _text(config)
    text = old
    for each in keys:
        edited = without_value(text, each.split("."))
        if edited is None:
            raise _unreadable(config, text)
        text = edited
    if text == old:
        raise UserMistake(
            f"{key} is not set in {shown_path(config.user_file)}; nothing was changed.",
            hint=f"midstream config get {key} says where its value comes from.",
        )
    return _kept(config, old, text, keys)


def own_problems(config: ConfigManager, text: str) -> tuple[Problem, ...]:
    """Return what the reader of settings would say against a text of the user's file."""
    return read_settings(text, file=shown_path(config.user_file))[1]


def settings_of(config: ConfigManager, key: str = "") -> tuple[Setting, ...]:
    """Return the settings as they count, all of them or those a key means.

    Raises:
        UserMistake: there is no such setting.
    """
    meant = _keys(key) if key else ()
    return tuple(each for each in config.explain() if not key or _is_of(each.key, meant))


def _is_of(key: str, meant: Sequence[str]) -> bool:
    """Return whether a setting is one of these, or a part of one."""
    return any(f"{key}.".startswith(f"{each}.") for each in meant)


def explained(config: ConfigManager, key: str) -> str:
    """Return what a setting is, where that comes from, and what it hides, in lines.

    Raises:
        UserMistake: there is no such setting.
    """
    found = settings_of(config, key)
    if not found:
        group, _, part = key.partition(".")
        if group == OWN_KEYS and part:
            return f"{key} is not set: its key is {actions()[part].name}."
        return f"{key} is not set{': there is no limit' if group in (BUDGET, RATES) else ''}."
    return "\n".join(line for each in found for line in _told(each))


def where(setting: Setting) -> str:
    """Return where a setting comes from: the layer, and which file or variable of yours it is."""
    return setting.layer if setting.layer == "built-in" else f"{setting.layer}: {setting.source}"


def effect(config: ConfigManager, key: str) -> str:
    """Return when a change of a setting counts, and what changes it at once where something does."""
    at_once = _AT_ONCE.get(key.partition(".")[0], "")
    over = [each for each in settings_of(config, key) if each.layer not in ("built-in", "user")]
    won = [each for each in over if each.layer != "this session"]
    if won:
        return f"It has no effect yet: {won[0].value} of the {where(won[0])} wins."
    return f"It takes effect at the next start{f'; {at_once} changes it now' if at_once else ''}."


_AT_ONCE: Final = {CURRENT_MODE: "/mode", PERMISSION_MODE: "/permissions", MODELS: "/model"}


def _told(setting: Setting) -> list[str]:
    hidden = [f"  hides {value} ({layer})" for layer, value in setting.hidden]
    return [f"{setting.key} = {setting.value}  ({where(setting)})", *hidden]


def _keys(key: str) -> tuple[str, ...]:
    """Return the settings a key means.

    Raises:
        UserMistake: there is none.
    """
    if key == MODELS:
        return MODEL_KEYS
    if key in SETTABLE:
        return (key,)
    if _SECRET_KEY.search(key):
        hint = f"API keys are not settings: put them into the environment (export {key}=...)."
        raise UserMistake(f"There is no setting {key!r}.", hint=hint)
    if key.partition(".")[0] == "mcpServers":
        hint = "midstream config edit opens the file, midstream mcp lists the servers."
        raise UserMistake("MCP servers are not set one by one.", hint=hint)
    best = nearest(key, SETTABLE) or _by_last_part(key)
    raise UserMistake(
        f"There is no setting {key!r}.", hint=f"Did you mean {best!r}?" if best else _LIST
    )


def _by_last_part(key: str) -> str | None:
    """Return the only setting whose last part is that, such as `models.base` for `base`."""
    found = [each for each in SETTABLE if each.rpartition(".")[2].casefold() == key.casefold()]
    return found[0] if len(found) == 1 else None


def _value(key: str, written: str) -> Json:
    """Return what a person typed as JSON where it is, else as text."""
    parsed = parse(written)
    if parsed.root is None or parsed.flaws:
        return written
    is_key = key.startswith(f"{OWN_KEYS}.") and parsed.root.kind != "array"
    if (key in _TEXTS or is_key) and parsed.root.kind != "string":
        return written
    return parsed.root.value


def _text(config: ConfigManager) -> str:
    try:
        data = read_capped(config.user_file)
    except FileMissing:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UserMistake(
            f"{shown_path(config.user_file)} is not UTF-8 text; it stays as it is.",
            hint="Save it as UTF-8, or move it away.",
        ) from None


def _unreadable(config: ConfigManager, text: str) -> UserMistake:
    problems = own_problems(config, text)
    first = f" {problems[0]}" if problems else ""
    return UserMistake(
        f"{shown_path(config.user_file)} has problems and stays as it is.{first}",
        hint="midstream config edit opens it.",
    )


def _check(config: ConfigManager, old: str, new: str, keys: Sequence[str]) -> None:
    """Return if the reader takes the values of these keys.

    Raises:
        UserMistake: it does not; the message is its own, with the place the value would have.
    """
    known = {(each.path, each.message) for each in own_problems(config, old)} if old else set()
    for problem in own_problems(config, new):
        of_these = any(_is_at(problem.path, key) for key in keys)
        if of_these or (problem.path, problem.message) not in known:
            raise UserMistake(f"Not set: {problem}", hint=f"{_how(problem)}The file is as it was.")


def _how(problem: Problem) -> str:
    """Return how such a value is written, where nobody could guess it."""
    return f"{_LIST_OF_RULES} " if problem.message.startswith("expected a list of rules") else ""


def _is_at(path: str, key: str) -> bool:
    place = f"$.{key}"
    return path == place or path.startswith((f"{place}.", f"{place}["))


def _kept(config: ConfigManager, old: str, text: str, keys: Sequence[str]) -> tuple[Setting, ...]:
    if text != old:
        write_whole(config.user_file, text.encode("utf-8"))
        config.reread()
    return tuple(each for each in config.explain() if _is_of(each.key, keys))


def template() -> str:
    """Return what a new application.json begins as: every setting there is, in comments."""
    from midstream.config.directories import BUILT_IN, SETTINGS

    lines = (BUILT_IN / SETTINGS).read_text(encoding="utf-8").splitlines()
    inside = [f"  // {line[2:]}" if _is_code(line) else line for line in lines[1:-1]]
    return "\n".join(["{", *inside, "}", ""])


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def as_json(setting: Setting) -> str:
    """Return a setting as one object on a line, for programs."""
    return json.dumps(
        {
            "key": setting.key,
            "value": setting.value,
            "layer": setting.layer,
            "source": setting.source,
            "hidden": [{"layer": layer, "value": value} for layer, value in setting.hidden],
        }
    )
