"""The verdict on a call: capability requests in; allow, ask or deny with the reason out.

Each request is judged alone, by the first of these that speaks:

    1. secret files are denied, unless an `allow` rule of the user's names that very file
    2. a `deny` rule denies
    3. the mode `plan` denies what is more than looking
    4. protected files are asked about, in every mode and whatever is allowed
    5. an `ask` rule asks
    6. an `allow` rule of the user's allows
    7. the mode decides; what it does not know is asked about

The call's verdict is the strictest of its requests'. So a further rule of the kinds that narrow, or a
stricter mode, never lets more happen.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from midstream.language.errors import clip
from midstream.safety.capability import (
    PURPOSES,
    UNREADABLE,
    Capability,
    Kind,
    PermissionMode,
    SandboxLevel,
)
from midstream.safety.protected import classify_path
from midstream.safety.redaction import Redactor
from midstream.safety.rules import ANY_HOST, MCP_HOST, Rule, is_obscure, known_rule
from midstream.safety.sanitize import sanitized


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What becomes of a call, and why.

    `reason` names the rule and where it stands, `hint` how a person could allow it. `asked` are the
    requests that need a yes: a grant for the run is exactly these.
    """

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    hint: str = ""
    asked: tuple[Capability, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a verdict depends on besides the requests. Rules are texts such as `exec: git status`.

    `narrowing_*` are a workspace's own rules: they may ask and deny, never allow. A text in `ask` or
    `deny` that is no rule asks about everything, since nobody knows what it was to keep from
    happening; one in `allow` allows nothing. `is_untrusted`: the workspace has files of its own that
    nobody has trusted, so that all there is is reading.
    """

    mode: PermissionMode = "ask"
    sandbox: SandboxLevel = "none"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    narrowing_ask: tuple[str, ...] = ()
    narrowing_deny: tuple[str, ...] = ()
    is_untrusted: bool = False


MODES: Final[tuple[PermissionMode, ...]] = ("plan", "ask", "auto", "full")
"""From the strictest to the one that lets most happen."""

OWN_FILE: Final = "your application.json"
WORKSPACE_FILE: Final = "the workspace's application.json"


def judged(requests: Sequence[Capability], policy: Policy) -> Verdict:
    """Return the verdict on a call that makes these requests. deny > ask > allow; no match: ask.

    Their order does not matter. A call that requests nothing is allowed. Of an asked `write` to a
    protected file, `asked` holds the `write_protected`: no rule for plain files covers that.
    """
    rules = _read(policy)
    found = [_judged_alone(each, policy, rules) for each in dict.fromkeys(requests)]
    denied = [each for each in found if each.kind == "deny"]
    asking = [each for each in found if each.kind == "ask"]
    decisive = denied or asking
    if not decisive:
        reasons = sorted({each.reason for each in found})
        return Verdict(kind="allow", reason=reasons[0] if reasons else "It needs nothing.")
    shown = min(decisive, key=lambda each: (each.reason, each.hint))
    if denied:
        return Verdict(kind="deny", reason=shown.reason, hint=shown.hint)
    asked = {str(each.about): each.about for each in asking}
    allowable = sorted(str(each.about) for each in asking if not each.hint)
    return Verdict(
        kind="ask",
        reason=shown.reason,
        hint=shown.hint or _to_allow(*allowable),
        asked=tuple(asked[text] for text in sorted(asked)),
    )


_ListName: TypeAlias = Literal["allow", "ask", "deny"]


class _Finding(NamedTuple):
    kind: Literal["allow", "ask", "deny"]
    about: Capability
    reason: str
    hint: str = ""  # none: a rule can allow it


class _Placed(NamedTuple):
    """A rule, and in words where it stands."""

    rule: Rule
    words: str


_ByKind: TypeAlias = dict[Kind, tuple[_Placed, ...]]


class _Rules(NamedTuple):
    """Rules by the kinds they may be about, in the order in which they stand."""

    allow: _ByKind
    ask: _ByKind
    deny: _ByKind
    unreadable: str


@lru_cache(maxsize=16)
def _read(policy: Policy) -> _Rules:
    allow, _ = _placed("allow", (policy.allow, OWN_FILE))
    ask, lost = _placed("ask", (policy.ask, OWN_FILE), (policy.narrowing_ask, WORKSPACE_FILE))
    deny, also = _placed("deny", (policy.deny, OWN_FILE), (policy.narrowing_deny, WORKSPACE_FILE))
    return _Rules(allow, ask, deny, next(iter((*also, *lost)), ""))


def _placed(
    list_name: _ListName, *lists: tuple[tuple[str, ...], str]
) -> tuple[_ByKind, tuple[str, ...]]:
    """Return the rules of some lists by kind, and in words those texts that are none."""
    found: dict[Kind, list[_Placed]] = {}
    lost: list[str] = []
    for texts, file in lists:
        for text in texts:
            which = (
                f"one of the {list_name} rules"
                if text == UNREADABLE
                else f'the {list_name} rule "{clip(text)}"'
            )
            words = f"{which} in {file}"
            rule = known_rule(text)
            if rule is None:
                lost.append(words)
                continue
            # What allows is matched to the letter: it is about its own kind alone.
            kinds = (rule.kind,) if list_name == "allow" else sorted(rule.concerned)
            for kind in kinds:
                found.setdefault(kind, []).append(_Placed(rule, words))
    return {kind: tuple(rules) for kind, rules in found.items()}, tuple(lost)


def may_ask_about(kind: Kind, policy: Policy) -> bool:
    """Return whether a rule, or one that cannot be read, could have a person asked about that kind."""
    rules = _read(policy)
    return bool(rules.unreadable) or kind in rules.ask


def _is_harmless(argv: tuple[str, ...]) -> bool:
    # Its tables take a while to load, and nothing is judged before the prompt is on the screen.
    from midstream.safety.read_only_commands import is_harmless

    return is_harmless(argv)


def _judged_alone(request: Capability, policy: Policy, rules: _Rules) -> _Finding:
    purpose = PURPOSES.get(request.kind)
    standing, why = ("plain", "") if purpose is None else classify_path(request.target, purpose)
    if standing == "secret" and (refused := _secret(request, why, rules)) is not None:
        return refused
    for placed in rules.deny.get(request.kind, ()):
        if placed.rule.concerns(request):
            hint = "Only a person who removes that rule can allow it."
            return _Finding("deny", request, f"{_first(placed.words)} refuses it.", hint)
    if purpose is not None and _leads_out(request.target):
        hint = "Name a path from the workspace's root."
        return _Finding(
            "deny", request, f"{_in_short(request.target)} leads out of the workspace.", hint
        )
    if policy.is_untrusted and request.kind not in ("read", "ask_user"):
        reason = (
            f"The workspace is not trusted, so only its files are read; this is {_said(request)}."
        )
        return _Finding(
            "deny", request, reason, "A person can look at it and trust it: run midstream trust"
        )
    harmless = request.kind == "exec" and _is_harmless(request.argv)
    if policy.mode == "plan" and not harmless and request.kind not in _LOOKING:
        reason = f"The permission mode plan only looks; this is {_said(request)}."
        return _Finding("deny", request, reason, "A person can change that: /permissions ask.")
    if request.kind == "write_protected" or standing == "protected":
        return _protected(request, why)
    return (
        _asked_by_rule(request, rules)
        or _allowed_by_rule(request, rules)
        or _by_mode(request, policy, rules, harmless=harmless)
    )


_LOOKING: Final = frozenset({"read", "ask_user", "net"})
"""What `plan` does not deny by itself; asking a host is asked about even so."""


def _secret(request: Capability, why: str, rules: _Rules) -> _Finding | None:
    """Return why a secret file is refused, None where the user's own rules name that very file."""
    if _is_named(request, rules):
        return None
    reason = f"The built-in rule on secret files refuses {_in_short(request.target)}: {why}."
    hint = _to_allow(str(request)).removesuffix(".")
    return _Finding("deny", request, reason, f"{hint}; it must name the very file.")


def _leads_out(path: str) -> bool:
    return path.startswith(("/", "~/")) or ".." in path.split("/") or "\0" in path


def _protected(request: Capability, why: str) -> _Finding:
    about = msgspec.structs.replace(request, kind="write_protected")
    reason = "The built-in rule on protected files asks in every permission mode about"
    hint = "No permission mode or rule can allow it in advance; a person is asked each time."
    ending = f": {why}." if why else "."
    return _Finding("ask", about, f"{reason} {_in_short(request.target)}{ending}", hint)


def _asked_by_rule(request: Capability, rules: _Rules) -> _Finding | None:
    if rules.unreadable and request.kind != "ask_user":
        reason = f"{_first(rules.unreadable)} cannot be read, so midstream asks about everything."
        return _Finding("ask", request, reason, "Correct the rule, or remove it.")
    for placed in rules.ask.get(request.kind, ()):
        if placed.rule.concerns(request):
            hint = "midstream asks each time while that rule is there."
            return _Finding("ask", request, f"{_first(placed.words)} asks.", hint)
    return _asked_as_unclear(request, rules)


def _asked_as_unclear(request: Capability, rules: _Rules) -> _Finding | None:
    """Return why something is asked about that could be what a rule is about, and nobody can tell."""
    kinds: list[Kind] = []
    if request.kind == "shell" and is_obscure(request.target):
        kinds.append("exec")
    elif request.kind == "outside" or (request.kind == "net" and request.target == ANY_HOST):
        # Outside nothing keeps a command to hosts.
        kinds.append("net")
    reads_unnamed = request.kind == "shell" or (
        request.kind == "exec" and _reads_more(request.argv)
    )
    if reads_unnamed and _on_reading(rules) and not _is_named(request, rules):
        kinds.append("read")
    for kind in kinds:
        for placed in (*rules.deny.get(kind, ()), *rules.ask.get(kind, ())):
            is_left_out = kind == "read" and placed.rule.text in request.left_out
            if placed.rule.kind == kind and not is_left_out:
                reason = f"It may do what {placed.words} is about; midstream cannot tell."
                return _Finding("ask", request, reason, "A person can allow it when it is asked.")
    return None


def _on_reading(rules: _Rules) -> tuple[_Placed, ...]:
    return (*rules.deny.get("read", ()), *rules.ask.get("read", ()))


def is_named(request: Capability, policy: Policy) -> bool:
    """Return whether an `allow` rule of the user's own names that very thing."""
    return _is_named(request, _read(policy))


def _is_named(request: Capability, rules: _Rules) -> bool:
    """Return whether the user's own rules name that very thing: of a command, they know what it reads."""
    return any(
        placed.rule.is_literal and placed.rule.covers(request)
        for placed in rules.allow.get(request.kind, ())
    )


def kept_from(command: Capability, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules on reading that hold for what a command reads without naming it."""
    rules = _read(policy)
    if _is_named(command, rules):
        return ()
    return tuple(dict.fromkeys(placed.rule for placed in _on_reading(rules)))


def _reads_more(argv: tuple[str, ...]) -> bool:
    from midstream.safety.read_only_commands import reads_more  # as for `_is_harmless`

    return reads_more(argv)


def _allowed_by_rule(request: Capability, rules: _Rules) -> _Finding | None:
    for placed in rules.allow.get(request.kind, ()):
        if placed.rule.covers(request):
            return _Finding("allow", request, f"{_first(placed.words)} allows it.")
    return None


def _by_mode(request: Capability, policy: Policy, rules: _Rules, *, harmless: bool) -> _Finding:
    mode = policy.mode
    if request.kind in ("read", "ask_user"):
        return _Finding("allow", request, "The built-in rules allow looking and asking.")
    if harmless:
        return _Finding("allow", request, "It is on the built-in list of read-only commands.")
    if mode == "full":
        return _Finding("allow", request, "The permission mode is full.")
    if mode == "auto" and request.kind == "write":
        return _Finding(
            "allow", request, "The permission mode is auto: plain files may be written."
        )
    is_command = request.kind in ("exec", "shell")
    if mode == "auto" and is_command and policy.sandbox == "full":
        return _Finding("allow", request, "The permission mode is auto: it runs in the sandbox.")
    said, because = _said(request), ""
    if request.kind == "outside":
        said = f"{_said(msgspec.structs.replace(request, kind='exec'))} {_OUTSIDE[policy.sandbox]}"
    elif mode == "auto" and is_command:
        because = f": {_NOT_INSIDE[policy.sandbox]}"
    elif mode == "ask" and (request.kind == "write" or (is_command and policy.sandbox == "full")):
        because = "; auto does not"
    for placed in rules.allow.get(request.kind, ()):
        if word := placed.rule.stops_at(request):
            because += f". {_first(placed.words)} is no yes to `{_in_short(word)}`"
            break
    return _Finding("ask", request, f"The permission mode {mode} asks about {said}{because}.")


_NOT_INSIDE: Final = {
    "none": "there is no sandbox here",
    "partial": "the sandbox here is partial",
}
_OUTSIDE: Final = {
    "none": f"without a sandbox: {_NOT_INSIDE['none']}",
    "partial": f"outside a whole sandbox: {_NOT_INSIDE['partial']}",
    "full": "outside the sandbox",
}


_NAMES: Final = {
    "write": "a change of",
    "write_protected": "a change of",
    "exec": "the command",
    "shell": "the shell line",
    "outside": "the command",
    "net": "the host",
    "tool": "the tool",
    "read": "reading",
    "ask_user": "a question",
}


def _said(request: Capability) -> str:
    target = _in_short(sanitized(request.target))
    if request.kind == "net" and request.target == ANY_HOST:
        return "the network"
    if request.kind == "net" and target.startswith(MCP_HOST):
        return f"what the MCP server {target.removeprefix(MCP_HOST)} reaches"
    if request.kind == "outside":
        return f"{_NAMES[request.kind]} `{target}` outside the sandbox"
    if request.kind in ("exec", "shell"):
        return f"{_NAMES[request.kind]} `{target}`"  # its end is not the sentence's
    return f"{_NAMES[request.kind]} {target}"


def _in_short(target: str) -> str:
    """Return a target as a part of a sentence: what looks like a secret is redacted before it is cut."""
    return clip(_REDACTOR.beginning(target, _LOOKED_AT))


_LOOKED_AT: Final = 2_000
_REDACTOR: Final = Redactor()


def _to_allow(*rules: str) -> str:
    """Return how a person could allow what these are the texts of from now on."""
    if not all(len(rule) <= _LONGEST_HINT and rule.isprintable() for rule in rules):
        return "A person can allow it when it is asked."
    said = " and ".join(f'"{rule}"' for rule in dict.fromkeys(rules))
    return f"To allow it always: {said} under permissions.allow in {OWN_FILE}."


_LONGEST_HINT: Final = 120


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
