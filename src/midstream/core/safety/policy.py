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

from midstream.core.safety.capability import Capability, Kind, PermissionMode, SandboxLevel
from midstream.core.safety.protected import Purpose, classify_path
from midstream.core.safety.rules import ANY_HOST, Rule, is_obscure, known_rule
from midstream.core.safety.sanitize import sanitized
from midstream.core.shape import clip


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
    return Verdict(
        kind="ask",
        reason=shown.reason,
        hint=shown.hint,
        asked=tuple(asked[text] for text in sorted(asked)),
    )


_ListName: TypeAlias = Literal["allow", "ask", "deny"]


class _Finding(NamedTuple):
    kind: Literal["allow", "ask", "deny"]
    about: Capability
    reason: str
    hint: str = ""


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
            words = f'the {list_name} rule "{clip(text)}" in {file}'
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
    from midstream.core.safety.harmless import is_harmless

    return is_harmless(argv)


_PURPOSES: Final[dict[str, Purpose]] = {
    "read": "read",
    "write": "write",
    "write_protected": "write",
}


def _judged_alone(request: Capability, policy: Policy, rules: _Rules) -> _Finding:
    purpose = _PURPOSES.get(request.kind)
    standing, why = ("plain", "") if purpose is None else classify_path(request.target, purpose)
    if standing == "secret" and (refused := _secret(request, why, rules)) is not None:
        return refused
    for placed in rules.deny.get(request.kind, ()):
        if placed.rule.concerns(request):
            hint = "Only a person who takes that rule out can allow it."
            return _Finding("deny", request, f"{_first(placed.words)} refuses it.", hint)
    if purpose is not None and _leads_out(request.target):
        hint = "Name a path from the workspace's root."
        return _Finding(
            "deny", request, f"{clip(request.target)} leads out of the workspace.", hint
        )
    if policy.is_untrusted and request.kind not in ("read", "ask_user"):
        reason = (
            f"The workspace is not trusted, so only its files are read; this is {_said(request)}."
        )
        return _Finding(
            "deny", request, reason, "A person can look at it and trust it: midstream trust"
        )
    harmless = request.kind == "exec" and _is_harmless(request.argv)
    if policy.mode == "plan" and not harmless and request.kind not in _LOOKING:
        reason = f"The mode is plan, which only looks; this is {_said(request)}."
        return _Finding("deny", request, reason, "A person can change the mode: /mode ask.")
    if request.kind == "write_protected" or standing == "protected":
        return _protected(request, why)
    return (
        _asked_by_rule(request, rules)
        or _allowed_by_rule(request, rules)
        or _by_mode(request, policy, harmless=harmless)
    )


_LOOKING: Final = frozenset({"read", "ask_user", "net"})
"""What `plan` does not deny by itself; asking a host is asked about even so."""


def _secret(request: Capability, why: str, rules: _Rules) -> _Finding | None:
    """Return why a secret file is refused, None where the user's own rules name that very file."""
    for placed in rules.allow.get(request.kind, ()):
        if placed.rule.is_literal and placed.rule.covers(request):
            return None
    reason = f"The built-in rule on secret files refuses {clip(request.target)}: {why}."
    return _Finding("deny", request, reason, _to_allow(request, "must name the very file"))


def _leads_out(path: str) -> bool:
    return path.startswith(("/", "~/")) or ".." in path.split("/") or "\0" in path


def _protected(request: Capability, why: str) -> _Finding:
    about = msgspec.structs.replace(request, kind="write_protected")
    reason = "The built-in rule on protected files asks in every mode about"
    hint = "No mode and no rule allows it ahead; a person says yes when it is asked."
    ending = f": {why}." if why else "."
    return _Finding("ask", about, f"{reason} {clip(request.target)}{ending}", hint)


def _asked_by_rule(request: Capability, rules: _Rules) -> _Finding | None:
    if rules.unreadable and request.kind != "ask_user":
        reason = f"{_first(rules.unreadable)} cannot be read, so everything is asked about."
        return _Finding("ask", request, reason, "Put the rule right, or take it out.")
    for placed in rules.ask.get(request.kind, ()):
        if placed.rule.concerns(request):
            hint = "It is asked each time as long as that rule stands there."
            return _Finding("ask", request, f"{_first(placed.words)} asks.", hint)
    return _asked_as_unclear(request, rules)


def _asked_as_unclear(request: Capability, rules: _Rules) -> _Finding | None:
    """Return why something is asked about that could be what a rule is about, and nobody can tell."""
    if request.kind == "shell" and is_obscure(request.target):
        kind: Kind = "exec"
    elif request.kind == "net" and request.target == ANY_HOST:
        kind = "net"
    else:
        return None
    for placed in (*rules.deny.get(kind, ()), *rules.ask.get(kind, ())):
        if placed.rule.kind == kind:
            reason = f"It may do what {placed.words} is about, and nobody can tell."
            return _Finding("ask", request, reason, "A person can allow it when it is asked.")
    return None


def _allowed_by_rule(request: Capability, rules: _Rules) -> _Finding | None:
    for placed in rules.allow.get(request.kind, ()):
        if placed.rule.covers(request):
            return _Finding("allow", request, f"{_first(placed.words)} allows it.")
    return None


def _by_mode(request: Capability, policy: Policy, *, harmless: bool) -> _Finding:
    mode = policy.mode
    if request.kind in ("read", "ask_user"):
        return _Finding("allow", request, "The built-in rules allow looking and asking.")
    if harmless:
        return _Finding("allow", request, "The built-in list of commands that only look allows it.")
    if mode == "full":
        return _Finding("allow", request, "The mode is full.")
    if mode == "auto" and request.kind == "write":
        return _Finding("allow", request, "The mode is auto: plain files may be written.")
    is_command = request.kind in ("exec", "shell")
    if mode == "auto" and is_command and request.sandboxed and policy.sandbox == "full":
        return _Finding("allow", request, "The mode is auto: it runs in the sandbox.")
    because = ""
    if mode == "auto" and is_command:
        because = _not_sandboxed(request, policy)
    elif mode == "ask" and (
        request.kind == "write" or (is_command and request.sandboxed and policy.sandbox == "full")
    ):
        because = "; auto does not"
    reason = f"The mode is {mode}, which asks about {_said(request)}{because}."
    return _Finding("ask", request, reason, _to_allow(request))


def _not_sandboxed(request: Capability, policy: Policy) -> str:
    if policy.sandbox == "none":
        return ": there is no sandbox here"
    if request.sandboxed:
        return ": the sandbox here is partial"
    return ": only what runs in the sandbox, without network, runs unasked"


_NAMES: Final = {
    "write": "a change of",
    "write_protected": "a change of",
    "exec": "the command",
    "shell": "the shell line",
    "net": "the host",
    "tool": "the tool",
    "read": "reading",
    "ask_user": "a question",
}


def _said(request: Capability) -> str:
    target = clip(sanitized(request.target))
    if request.kind == "net" and request.target == ANY_HOST:
        return "the network"
    if request.kind == "net" and target.startswith(_MCP):
        return f"what the MCP server {target.removeprefix(_MCP)} reaches"
    if request.kind in ("exec", "shell"):
        return f"{_NAMES[request.kind]} `{target}`"  # its end is not the sentence's
    return f"{_NAMES[request.kind]} {target}"


_MCP: Final = "mcp__"
"""How the names of MCP servers' tools begin, and the host that stands for all that a server reaches."""


def _to_allow(request: Capability, *more: str) -> str:
    """Return how a person could allow a request from now on."""
    rule = str(request)
    if len(rule) > _LONGEST_HINT or not rule.isprintable():
        return "A person can allow it when it is asked."
    also = f"; it {more[0]}" if more else ""
    return f'To allow it always: "{rule}" under permissions.allow in {OWN_FILE}{also}.'


_LONGEST_HINT: Final = 120


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
