"""application.json: what may stand in it, read without ever failing, edited without losing a comment.

A rule that asks or denies is never lost. One that cannot be read stays in its list as it is, and what
cannot even be told apart stands there as `UNREADABLE`: neither is a rule, and the policy asks about
everything as long as such a text is in it. A slip of the pen must not let happen what it was to stop.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

from midstream.language.errors import UserMistake, clip
from midstream.language.json_text import Member, Node
from midstream.language.names import Json, Mode, python_file
from midstream.language.problem import Problem, Report
from midstream.language.shape import fit, read_file, shown
from midstream.safety.capability import UNREADABLE

Editing: TypeAlias = Literal["emacs", "vi"]
"""Whose keys the line is edited with: those of Emacs, as in most shells, or those of vi."""

Notifications: TypeAlias = Literal["off", "bell", "desktop"]
"""How the terminal calls a person who looks elsewhere: not at all, by its bell, by a notification."""

Theme: TypeAlias = Literal[
    "auto", "light", "dark", "colour-blind-light", "colour-blind-dark", "plain"
]
"""In which colours the console is drawn: see `tui.themes`."""

CURRENT_MODE: Final = "currentMode"
DEFAULT_ROLE: Final = "defaultRole"
AUTO_RESUME: Final = "autoResume"
AUTO_COMPACT: Final = "autoCompact"
DIAGNOSTICS: Final = "diagnostics"
EDITING: Final = "editing"
NOTIFICATIONS: Final = "notifications"
THEME: Final = "theme"
SCREEN_READER: Final = "screenReader"
UPDATE_NOTICE: Final = "updateNotice"
OWN_KEYS: Final = "keys"
STATUS_LINE: Final = "statusLine"
STATUS_PARTS: Final = ("template", "command", "sandbox")
STATUS_FIELDS: Final = (
    *("mode", "role", "model", "state", "cost", "tokens", "run", "permission", "branch", "cwd"),
)
"""What a template of the status line may name."""

LOOKS: Final = (THEME, OWN_KEYS, STATUS_LINE)
"""What a console may do from now on when it is set in it; of `keys` the whole group."""

MODELS: Final = "models"
LEVELS: Final = ("base", "smart", "fast")
MODEL_KEYS: Final = tuple(f"{MODELS}.{level}" for level in LEVELS)
PATIENCE: Final = "modelPatience"
ATTEMPTS: Final = "attempts"
PATIENCE_PARTS: Final = ("firstByteSeconds", "silenceSeconds", "totalSeconds", ATTEMPTS)
BUDGET: Final = "budget"
BUDGET_PARTS: Final = {
    "usd": "usd",
    "tokens": "tokens",
    "toolCalls": "tool_calls",
    "transitions": "transitions",
    "minutes": "minutes",
}
"""The parts of what each run may use, as the settings name them and as `language.spec.Budget` does."""

FRACTIONAL: Final = ("usd", "minutes")
"""The parts that need not be whole numbers."""

WEB_SEARCH: Final = "webSearch"
WEB_SEARCH_PARTS: Final = ("provider", "url", "keyVariable")
WEB_SEARCHES: Final = {
    "searxng": ("", ""),
    "brave": ("https://api.search.brave.com/res/v1/web/search", "BRAVE_API_KEY"),
    "tavily": ("https://api.tavily.com/search", "TAVILY_API_KEY"),
}
"""What answers a search: where, and which variable has its key, if nothing else is said."""

TRACES: Final = "traces"
TRACES_PARTS: Final = ("endpoint", "content")
"""Where traces of runs are sent to, and whether with words; `traces` itself says whether at all."""

RATES: Final = "requestsPerMinute"
EACH_USER: Final = "user"
"""Among the rates: what each person gets."""

PERMISSION_MODE: Final = "permissionMode"
PERMISSIONS: Final = "permissions"
RULE_LISTS: Final = ("allow", "ask", "deny")
RULE_KEYS: Final = tuple(f"{PERMISSIONS}.{each}" for each in RULE_LISTS)
"""The lists as `read_settings` returns them, each a JSON list of texts. No layer's hides another's."""

MAX_CHECKERS: Final = 8
"""Commands that check the same files."""

MAX_RULES: Final = 200
"""Rules of a list."""

_TRUTH: Final = ("true", "false")
FEW_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    AUTO_RESUME: _TRUTH,
    AUTO_COMPACT: _TRUTH,
    DIAGNOSTICS: _TRUTH,
    PERMISSION_MODE: ("plan", "ask", "auto"),
    EDITING: get_args(Editing),
    NOTIFICATIONS: get_args(Notifications),
    THEME: get_args(Theme),
    SCREEN_READER: _TRUTH,
    UPDATE_NOTICE: _TRUTH,
}
"""The values of those settings that have just a few; of `diagnostics` besides commands."""

KEYS: Final = (
    CURRENT_MODE,
    *FEW_VALUES,
    *MODEL_KEYS,
    *(f"{PATIENCE}.{part}" for part in PATIENCE_PARTS),
)
"""Every setting that always has a value, as `ConfigManager.value` names it."""

GROUPS: Final[Mapping[str, Sequence[str]]] = {
    PATIENCE: PATIENCE_PARTS,
    BUDGET: tuple(BUDGET_PARTS),
    PERMISSIONS: RULE_LISTS,
    STATUS_LINE: STATUS_PARTS,
    WEB_SEARCH: WEB_SEARCH_PARTS,
    TRACES: TRACES_PARTS,
}
"""The settings that are objects, with their parts; `models` and `keys` besides."""

_LONGEST_S: Final = 86_400.0

_OWN: Final = "Set it in your own application.json."
_THEIRS: Final = (
    "They decide where code is sent and what it costs: set them in your own application.json."
)
_NOT_FOR_WORKSPACES: Final = {
    MODELS: ("choose models", _THEIRS),
    PATIENCE: ("choose models", _THEIRS),
    WEB_SEARCH: ("choose a search engine", _OWN),
    TRACES: ("have traces sent", _OWN),
    RATES: ("say how many requests there are", _OWN),
    PERMISSION_MODE: ("set the permission mode", _OWN),
    EDITING: ("change the keys", _OWN),
    NOTIFICATIONS: ("set notifications", _OWN),
    THEME: ("choose the colours", _OWN),
    SCREEN_READER: ("choose the screen reader mode", _OWN),
    UPDATE_NOTICE: ("have newer versions looked up", _OWN),
    OWN_KEYS: ("change the keys", _OWN),
    STATUS_LINE: ("set the status line", _OWN),
    AUTO_RESUME: ("make runs resume by themselves", _OWN),
    AUTO_COMPACT: ("say when chats are summarised", _OWN),
}


def read_settings(
    text: str, *, file: str, is_workspace: bool = False
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """Return the settings of a file's text by key (see `KEYS`), and its problems in order.

    A setting with a problem is left out, so that a lower layer's counts; a file that is not JSON
    sets nothing, though rules in it that ask or deny are not simply gone.
    A workspace's file may set the mode, and rules that ask or deny: a model decides where the code is
    sent and who pays, and that is the user's to say, as what is allowed is.
    """
    root, report = read_file(text, file)
    if root is None or report.problems:
        return _lost_rules() if f'"{PERMISSIONS}"' in text else {}, report.problems
    if root.kind != "object":
        report.error(root, "expected an object {...} of settings.")
    settings: dict[str, str] = {}
    for key, member in root.members.items():
        if key not in TOP:
            hint = report.near(key, TOP)
            report.warning(member.node, f'unknown key "{clip(key)}" is ignored.', hint)
        elif key in ("mcpServers", "hooks"):
            continue  # `config.mcp_servers` and `config.hooks` read them.
        elif is_workspace and key in _NOT_FOR_WORKSPACES:
            what, hint = _NOT_FOR_WORKSPACES[key]
            report.error(member.node, f"a workspace may not {what}; ignored.", hint)
        elif key == PERMISSIONS:
            settings |= _permissions(member.node, report, is_workspace=is_workspace)
        elif key in _READERS:
            settings |= _READERS[key](member.node, report)
        elif key in FEW_VALUES:
            settings |= _plain(key, member.node, report)
        elif key == CURRENT_MODE or CURRENT_MODE not in root.members:
            settings |= _mode(member, report)
    return settings, report.problems


def _mode(member: Member, report: Report) -> dict[str, str]:
    node = member.node
    if not fit(node, str, report):
        return {}
    text: str = node.value if member.key == CURRENT_MODE else f"role:{node.value}"
    try:
        mode = Mode.parse(text)
    except UserMistake as error:
        report.error(node, error.what, error.hint)
        return {}
    if mode.kind == "workflow" and python_file(mode.name) is not None:
        # What a workspace has trusted are the files of its .midstream, and no others.
        report.error(
            node,
            f"{clip(mode.name)} is a file, which no setting starts; ignored.",
            "Put it into a folder workflows, and name it without .py.",
        )
        return {}
    if member.key == DEFAULT_ROLE:
        read_as = f'"{DEFAULT_ROLE}" is the older name of "{CURRENT_MODE}": read as "{mode}".'
        report.warning(node, read_as)
    return {CURRENT_MODE: str(mode)}


def _plain(key: str, node: Node, report: Report) -> dict[str, str]:
    """Return a setting that has a few values, nothing if it has a problem."""
    known = FEW_VALUES[key]
    return _truth(key, node, report) if known is _TRUTH else _choice(key, known, node, report)


def _truth(key: str, node: Node, report: Report) -> dict[str, str]:
    """Return a setting that is true or false, nothing if it has a problem."""
    if not fit(node, bool, report):
        return {}
    return {key: "true" if node.value else "false"}


def _diagnostics(node: Node, report: Report) -> dict[str, str]:
    """Return whether changes are checked, or a JSON object of commands by patterns of files."""
    if node.kind != "object":
        return _truth(DIAGNOSTICS, node, report)
    found: dict[str, list[str]] = {}
    for patterns, member in node.members.items():
        said = member.node.items if member.node.kind == "array" else (member.node,)
        commands = [each.value for each in said if each.kind == "string" and each.value.strip()]
        if not patterns.strip() or len(commands) < len(said) or len(commands) > MAX_CHECKERS:
            form = 'such as {"*.py": "ruff check {files}"}'
            report.error(member.node, f"expected a command, or some, for files {form}.")
        else:
            found[patterns] = commands
    return {DIAGNOSTICS: json.dumps(found)} if found else {}


def _choice(key: str, known: Sequence[str], node: Node, report: Report) -> dict[str, str]:
    """Return a setting that is one of a few words, nothing if it has a problem."""
    if not fit(node, str, report):
        return {}
    if node.value in known:
        return {key: node.value}
    hint = report.near(node.value, known)
    if (key, node.value) == (PERMISSION_MODE, "full"):
        hint = "full is for one session: it needs a flag and a word typed at the start."
    some = " or ".join(known) if len(known) == 2 else f"one of {', '.join(known)}"
    report.error(node, f'expected {some}, found "{clip(node.value)}".', hint)
    return {}


def _members(
    node: Node, report: Report, known: Sequence[str], *, form: str, called: str = '"{}" here'
) -> Iterator[tuple[str, Node]]:
    """Yield the members that are known of an object; what is wrong is reported."""
    if node.kind != "object":
        report.error(node, f"expected an object {form}.")
    for part, member in node.members.items():
        if part in known:
            yield part, member.node
        else:
            words = f"there is no {called.format(clip(part))}; ignored."
            report.error(member, words, report.near(part, known))


def _models(node: Node, report: Report) -> dict[str, str]:
    form = '{"base": ..., "smart": ..., "fast": ...}'
    found: dict[str, str] = {}
    for level, named in _members(node, report, LEVELS, form=form, called='level "{}"'):
        if fit(named, str, report):
            if named.value.strip():
                found[f"{MODELS}.{level}"] = named.value.strip()
            else:
                report.error(named, 'expected a model such as "openai:gpt-5", found "".')
    return found


def _patience(node: Node, report: Report) -> dict[str, str]:
    form = '{"firstByteSeconds": ..., "attempts": ...}'
    found: dict[str, str] = {}
    for part, number in _members(node, report, PATIENCE_PARTS, form=form):
        kind, least, most = (int, 1.0, 100.0) if part == ATTEMPTS else (float, 0.01, _LONGEST_S)
        if fit(number, kind, report):
            if least <= number.value <= most:
                found[f"{PATIENCE}.{part}"] = str(number.value)
            else:
                words = f"expected a number from {least:g} to {most:g}, found {shown(number)}."
                report.error(number, words)
    return found


def _budget(node: Node, report: Report) -> dict[str, str]:
    """Return the limits by keys such as `budget.usd`; what is no number above 0 is left out."""
    form = 'such as {"usd": 2, "toolCalls": 200}'
    found: dict[str, str] = {}
    for part, number in _members(node, report, tuple(BUDGET_PARTS), form=form):
        if fit(number, float if part in FRACTIONAL else int, report):
            if number.value > 0:
                found[f"{BUDGET}.{part}"] = str(number.value)
            else:
                report.error(number, f"expected a number above 0, found {shown(number)}.")
    return found


def _rates(node: Node, report: Report) -> dict[str, str]:
    """Return the rates as a JSON object by what they are of; what is no number above 0 is left out."""
    form = 'such as {"openai:gpt-5": 60, "$OPENAI_API_KEY": 500, "user": 30}'
    if node.kind != "object":
        report.error(node, f"expected an object {form}.")
    found: dict[str, float] = {}
    for name, member in node.members.items():
        if not (name == EACH_USER or name[:1] == "$" or ":" in name):
            report.error(
                member, f'"{clip(name)}" is no model, no $VARIABLE of a key and not "user".'
            )
        elif fit(member.node, float, report):
            if member.node.value > 0:
                found[name] = member.node.value
            else:
                report.error(member.node, f"expected a number above 0, found {shown(member.node)}.")
    return {RATES: json.dumps(found)} if found else {}


def _keys(node: Node, report: Report) -> dict[str, str]:
    """Return the keys of actions by keys such as `keys.send`, each a JSON list of names."""
    if node.kind != "object":
        report.error(node, 'expected an object such as {"show_last": "F5"}.')
    from midstream.views.key_table import rebound  # few have keys of their own

    wanted: dict[str, list[str]] = {}
    for action, member in node.members.items():
        one = member.node.kind == "string"
        if one or fit(member.node, tuple[str, ...], report):
            wanted[action] = [member.node.value] if one else member.node.value
    for misfit in rebound(wanted)[1]:
        report.error(node.members[misfit.action].node, misfit.what, misfit.hint)
        del wanted[misfit.action]
    return {f"{OWN_KEYS}.{action}": _as_list(names) for action, names in wanted.items()}


def _status_line(node: Node, report: Report) -> dict[str, str]:
    """Return the parts by keys such as `statusLine.template`; a text alone is a template."""
    if node.kind == "string":
        return _template(node, report)
    command = '{"command": "~/.config/midstream/hooks/status.sh"}'
    form = f'such as {command}, or a template such as "{{model}} · {{branch}}"'
    found: dict[str, str] = {}
    for part, member in _members(node, report, (*STATUS_PARTS, "type", "padding"), form=form):
        if part == "template" and fit(member, str, report):
            found |= _template(member, report)
        elif part == "command" and fit(member, str, report):
            found[f"{STATUS_LINE}.command"] = member.value
        elif part == "sandbox":
            found |= _truth(f"{STATUS_LINE}.sandbox", member, report)
    return found


def _template(node: Node, report: Report) -> dict[str, str]:
    unknown = [name for name in re.findall(r"\{(\w*)\}", node.value) if name not in STATUS_FIELDS]
    for name in unknown:
        hint = report.near(name, STATUS_FIELDS)
        report.error(node, f"there is no field {{{clip(name)}}}.", hint)
    return {} if unknown else {f"{STATUS_LINE}.template": node.value}


def _web_search(node: Node, report: Report) -> dict[str, str]:
    """Return the parts by keys such as `webSearch.url`, all of them or none."""
    form = 'such as {"provider": "brave"}'
    members = dict(_members(node, report, WEB_SEARCH_PARTS, form=form))
    if not all(fit(member, str, report) for member in members.values()):
        return {}
    said: dict[str, str] = {part: member.value for part, member in members.items()}
    provider = said.get("provider", "")
    if provider not in WEB_SEARCHES:
        report.error(
            members.get("provider", node), f"provider is one of {', '.join(WEB_SEARCHES)}."
        )
        return {}
    url, variable = WEB_SEARCHES[provider]
    found = {"provider": provider, "url": url, "keyVariable": variable} | said
    if not re.match(r"https?://[^\s@]+\Z", found["url"]):
        report.error(members.get("url", node), "url is an http or https address.")
        return {}
    if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z|\Z", found["keyVariable"]):
        report.error(
            members["keyVariable"],
            "keyVariable is the name of a variable.",
            "The key itself stands in the environment.",
        )
        return {}
    return {f"{WEB_SEARCH}.{part}": text for part, text in found.items()}


def _traces(node: Node, report: Report) -> dict[str, str]:
    """Return whether traces are sent, and the parts by keys such as `traces.endpoint`."""
    if node.kind != "object":
        return _truth(TRACES, node, report)
    form = 'such as {"endpoint": "http://localhost:4318"}, or true'
    found = {TRACES: "true"}
    for part, member in _members(node, report, TRACES_PARTS, form=form):
        if part == "content":
            found |= _truth(f"{TRACES}.{part}", member, report)
        elif fit(member, str, report):
            if not re.match(r"https?://[^\s/?#]+[^\s?#]*\Z", member.value):
                report.error(member, "endpoint is the http or https address of a collector.")
                return {}  # traces for this place go to no other
            found[f"{TRACES}.{part}"] = member.value
        else:
            return {}
    return found


_READERS: Final[Mapping[str, Callable[[Node, Report], dict[str, str]]]] = {
    DIAGNOSTICS: _diagnostics,
    OWN_KEYS: _keys,
    STATUS_LINE: _status_line,
    MODELS: _models,
    PATIENCE: _patience,
    BUDGET: _budget,
    WEB_SEARCH: _web_search,
    TRACES: _traces,
    RATES: _rates,
}
"""What reads the settings that are more than a word."""

TOP: Final = (
    *(CURRENT_MODE, DEFAULT_ROLE, PERMISSIONS, "mcpServers", "hooks", *FEW_VALUES, *_READERS),
)
"""What may stand in a file of settings; `defaultRole` is an older name."""


# --- rules: what is allowed, asked about and denied ---------------------------------------------


def _permissions(node: Node, report: Report, *, is_workspace: bool) -> dict[str, str]:
    """Return the lists of rules by key (see `RULE_KEYS`); a workspace's may only ask and deny."""
    if node.kind != "object":
        report.error(node, 'expected an object {"allow": [...], "ask": [...], "deny": [...]}.')
        return _lost_rules()
    found: dict[str, list[str]] = {}
    for name, member in node.members.items():
        if name not in RULE_LISTS:
            hint = report.near(name, RULE_LISTS)
            report.error(member, f'there is no list "{clip(name)}" here.', hint)
            found.setdefault("deny", []).append(UNREADABLE)
        elif name == "allow" and is_workspace:
            report.error(member.node, "a workspace may not allow anything; ignored.", _OWN)
        else:
            found.setdefault(name, []).extend(_rules(name, member.node, report))
    return {f"{PERMISSIONS}.{name}": _as_list(rules) for name, rules in found.items()}


def _lost_rules() -> dict[str, str]:
    """Return what stands for rules of a file that could not be read at all."""
    return {f"{PERMISSIONS}.deny": _as_list([UNREADABLE])}


def _as_list(rules: list[str]) -> str:
    return json.dumps(rules, ensure_ascii=False)


def _rules(name: str, node: Node, report: Report) -> list[str]:
    lost = [] if name == "allow" else [UNREADABLE]
    if node.kind != "array":
        report.error(node, f"expected a list of rules, found {shown(node)}.")
        return lost
    rules = [rule for item in node.items[:MAX_RULES] for rule in _rule(name, item, report)]
    if len(node.items) > MAX_RULES:
        report.error(node, f"{len(node.items):,} rules; only the first {MAX_RULES} are read.")
        rules += lost
    return rules


def _rule(name: str, node: Node, report: Report) -> list[str]:
    if node.kind != "string":
        report.error(node, f'expected a rule such as "exec: git status", found {shown(node)}.')
        return [] if name == "allow" else [UNREADABLE]
    from midstream.safety.rules import BadRule, read_rule  # a start without rules needs none

    text: str = node.value
    try:
        rule = read_rule(text)
    except BadRule as error:
        if name == "allow":
            report.error(node, error.what, error.hint)
            return []
        report.error(node, f"{error.what} Until then midstream asks about everything.", error.hint)
        return [text]
    if name == "allow" and rule.kind == "write_protected":
        report.error(node, "midstream always asks about protected files; ignored.", _ASKED)
        return []
    return [text]


_ASKED: Final = "You can allow a change when midstream asks, for one run at most."


# --- written back -------------------------------------------------------------------------------


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
