"""The rules of an application.json: what is allowed, asked about and denied.

A rule that asks or denies is never lost. One that cannot be read stays in its list as it is, and what
cannot even be told apart stands there as `UNREADABLE`: neither is a rule, and the policy asks about
everything as long as such a text is in it. A slip of the pen must not let happen what it was to stop.
"""

import json
from typing import Final

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.problem import Report
from midstream.language.shape import fit, shown

PERMISSION_MODE: Final = "permissionMode"
PERMISSION_MODES: Final = ("plan", "ask", "auto")
PERMISSIONS: Final = "permissions"
RULE_LISTS: Final = ("allow", "ask", "deny")
RULE_KEYS: Final = tuple(f"{PERMISSIONS}.{each}" for each in RULE_LISTS)
"""The lists as `read_settings` returns them, each a JSON list of texts. No layer's hides another's."""

MAX_RULES: Final = 200
"""Rules of a list."""

UNREADABLE: Final = "(rules that cannot be read)"

_OWN = "Set it in your own application.json."
_PROTECTED = "You can allow a change when midstream asks, for one run at most."


def read_permission_mode(node: Node, report: Report) -> dict[str, str]:
    """Return the setting, nothing if it has a problem. `full` is no mode for a file."""
    if not fit(node, str, report):
        return {}
    if node.value in PERMISSION_MODES:
        return {PERMISSION_MODE: node.value}
    hint = report.near(node.value, PERMISSION_MODES)
    if node.value == "full":
        hint = "full is for one session: it needs a flag and a word typed at the start."
    known = ", ".join(PERMISSION_MODES)
    report.error(node, f'expected one of {known}, found "{clip(node.value)}".', hint)
    return {}


def read_permissions(node: Node, report: Report, *, is_workspace: bool) -> dict[str, str]:
    """Return the lists of rules by key (see `RULE_KEYS`); a workspace's may only ask and deny."""
    if node.kind != "object":
        report.error(node, 'expected an object {"allow": [...], "ask": [...], "deny": [...]}.')
        return lost_rules()
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


def lost_rules() -> dict[str, str]:
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
        report.error(node, "midstream always asks about protected files; ignored.", _PROTECTED)
        return []
    return [text]
