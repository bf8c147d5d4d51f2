"""The verdict on a call: modes, rules, where they stand, and that nothing that narrows ever widens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.safety.capability import Capability, Kind, SandboxLevel
from midstream.safety.command_line import outside, read_command
from midstream.safety.policy import MODES, Policy, Verdict, judged
from midstream.safety.rules import covers

READ = Capability(kind="read", target="src/a.py")
WRITE = Capability(kind="write", target="src/a.py")
PROTECTED = Capability(kind="write_protected", target=".github/ci.yml")
TEST = read_command("npm test")
LINE = read_command("npm test | tee log")
LOOK = read_command("git status")
OUT = outside(TEST)
OUT_LINE = outside(LINE)
HOST = Capability(kind="net", target="docs.python.org")
TOOL = Capability(kind="tool", target="mcp.github.create_issue")
ASK = Capability(kind="ask_user", target="which?")


def kind_of(request: Capability, policy: Policy) -> str:
    return judged([request], policy).kind


@pytest.mark.parametrize(
    ("request_", "plan", "ask", "auto", "full"),
    [
        (READ, "allow", "allow", "allow", "allow"),
        (ASK, "allow", "allow", "allow", "allow"),
        (LOOK, "allow", "allow", "allow", "allow"),
        (WRITE, "deny", "ask", "allow", "allow"),
        (PROTECTED, "deny", "ask", "ask", "ask"),
        (TEST, "deny", "ask", "allow", "allow"),
        (LINE, "deny", "ask", "allow", "allow"),
        (OUT, "deny", "ask", "ask", "allow"),
        (OUT_LINE, "deny", "ask", "ask", "allow"),
        (HOST, "ask", "ask", "ask", "allow"),
        (TOOL, "deny", "ask", "ask", "allow"),
        (Capability(kind="read", target=".env"), "deny", "deny", "deny", "deny"),
        (Capability(kind="write", target="keys/id_rsa"), "deny", "deny", "deny", "deny"),
    ],
)
def test_what_each_mode_lets_happen(
    request_: Capability, plan: str, ask: str, auto: str, full: str
) -> None:
    found = [kind_of(request_, Policy(mode=mode, sandbox="full")) for mode in MODES]

    assert found == [plan, ask, auto, full]


@pytest.mark.parametrize("level", ["partial", "none"])
def test_auto_asks_about_commands_without_a_whole_sandbox(level: SandboxLevel) -> None:
    verdict = judged([TEST, OUT], Policy(mode="auto", sandbox=level))

    assert verdict.kind == "ask"
    assert ("partial" if level == "partial" else "no sandbox") in verdict.reason


# --- rules, and where they stand -----------------------------------------------------------------


def test_denying_comes_before_asking_and_asking_before_allowing() -> None:
    rule = ("exec: npm test",)

    assert kind_of(TEST, Policy(allow=rule)) == "allow"
    assert kind_of(TEST, Policy(allow=rule, ask=rule)) == "ask"
    assert kind_of(TEST, Policy(allow=rule, ask=rule, deny=rule)) == "deny"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy(allow=("exec: npm *",)), 'The allow rule "exec: npm *" in your application.json'),
        (Policy(ask=("exec: npm *",)), 'The ask rule "exec: npm *" in your application.json'),
        (Policy(deny=("exec: npm *",)), 'The deny rule "exec: npm *" in your application.json'),
        (Policy(narrowing_ask=("exec: npm *",)), "in the workspace's application.json asks."),
        (
            Policy(narrowing_deny=("exec: npm *",)),
            "in the workspace's application.json refuses it.",
        ),
        (Policy(mode="plan"), "The permission mode plan only looks"),
        (Policy(mode="ask"), "The permission mode ask asks about the command `npm test`."),
    ],
)
def test_a_verdict_says_which_rule_and_where_it_stands(policy: Policy, said: str) -> None:
    assert said in judged([TEST], policy).reason


@pytest.mark.parametrize(
    ("request_", "policy", "said"),
    [
        (TEST, Policy(), '"exec: npm test" under permissions.allow in your application.json'),
        (WRITE, Policy(), '"write: src/a.py" under permissions.allow in your application.json'),
        (OUT, Policy(mode="auto"), '"outside: npm test" under permissions.allow'),
        (OUT_LINE, Policy(), "\"outside: bash -c 'npm test | tee log'\" under permissions.allow"),
        (WRITE, Policy(mode="plan"), "/permissions ask"),
        (READ, Policy(deny=("read: **",)), "Only a person who removes that rule"),
        (PROTECTED, Policy(mode="full"), "a person is asked each time"),
        (Capability(kind="read", target=".env"), Policy(), '"read: .env" under permissions.allow'),
        (read_command("a\n" * 100), Policy(), "A person can allow it when it is asked."),
        (Capability(kind="write", target="/etc/x"), Policy(mode="full"), "workspace's root"),
        (TEST, Policy(ask=("exec",)), "Correct the rule"),
    ],
)
def test_what_is_not_allowed_says_how_a_person_could_allow_it(
    request_: Capability, policy: Policy, said: str
) -> None:
    verdict = judged([request_], policy)

    assert verdict.kind != "allow"
    assert verdict.reason
    assert said in verdict.hint


def test_a_rule_that_stops_at_a_flag_is_told_with_it() -> None:
    policy = Policy(allow=("exec: git fetch *", "exec: npm *"))
    said = judged([read_command("git fetch origin --upload-pack=x")], policy).reason

    assert said.endswith(
        'The allow rule "exec: git fetch *" in your application.json is no yes to `--upload-pack=x`.'
    )
    assert "no yes" not in judged([read_command("make")], policy).reason


def test_a_hint_is_true() -> None:
    for request in (TEST, LINE, OUT, OUT_LINE, WRITE, HOST, TOOL):
        hint = judged([request], Policy()).hint
        rule = hint.removeprefix('To allow it always: "').partition('" under permissions.allow')[0]

        assert kind_of(request, Policy(allow=(rule,))) == "allow"


def test_a_workspace_may_deny_what_the_user_allows() -> None:
    assert kind_of(TEST, Policy(allow=("exec: *",), narrowing_deny=("exec: npm *",))) == "deny"


def test_no_rule_allows_a_protected_file_ahead() -> None:
    policy = Policy(mode="full", allow=("write: **", "write_protected: **"))

    assert kind_of(PROTECTED, policy) == "ask"


def test_a_protected_file_called_a_plain_one_is_asked_about_as_what_it_is() -> None:
    disguised = Capability(kind="write", target="a/.GIT./hooks/x")

    verdict = judged([disguised], Policy(mode="full", allow=("write: **",)))

    assert verdict.kind == "ask"
    assert [each.kind for each in verdict.asked] == ["write_protected"]
    assert not covers(["write: **"], verdict.asked[0])


def test_a_secret_file_is_allowed_only_by_its_very_name_in_the_users_own_rules() -> None:
    secret = Capability(kind="read", target="deploy/.env.test")

    assert kind_of(secret, Policy(allow=("read: deploy/.env.test",))) == "allow"
    for rule in ("read: **", "read: deploy/*", "read: deploy/.env.tes?", "write: deploy/.env.test"):
        assert kind_of(secret, Policy(mode="full", allow=(rule,))) == "deny"


def test_a_text_that_is_no_rule_narrows_to_asking_and_allows_nothing() -> None:
    assert kind_of(TEST, Policy(mode="full", allow=("npm test",))) == "allow"
    assert kind_of(TEST, Policy(mode="full", deny=("npm test",))) == "ask"
    assert kind_of(READ, Policy(mode="full", narrowing_ask=("exec git",))) == "ask"
    assert "cannot be read" in judged([READ], Policy(deny=("git",))).reason
    assert kind_of(TEST, Policy(allow=("npm test",))) == "ask"


def test_a_line_that_may_hide_what_is_denied_is_asked_about_even_in_full() -> None:
    policy = Policy(mode="full", sandbox="full", deny=("exec: git push *",))

    assert kind_of(read_command("npm test | tee log"), policy) == "allow"
    assert kind_of(read_command("make; git push"), policy) == "deny"
    assert kind_of(read_command("$(echo g)it push"), policy) == "ask"
    assert kind_of(read_command("/usr/bin/gi? push"), policy) == "ask"


def test_a_command_with_the_whole_network_may_reach_what_is_denied() -> None:
    anywhere = Capability(kind="net", target="*")

    assert kind_of(anywhere, Policy(allow=("net: *",))) == "allow"
    assert kind_of(anywhere, Policy(allow=("net: *.org", "net: example.net"))) == "ask"
    assert kind_of(anywhere, Policy(mode="full", deny=("net: evil.example",))) == "ask"
    assert kind_of(anywhere, Policy(mode="full", deny=("net: *",))) == "deny"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "~/.bashrc", "a\0b"])
@pytest.mark.parametrize("kind", ["read", "write", "write_protected"])
def test_a_path_that_leads_out_is_denied_in_every_mode(path: str, kind: Kind) -> None:
    for mode in MODES:
        policy = Policy(mode=mode, sandbox="full", allow=("read: **", "write: **"))
        assert kind_of(Capability(kind=kind, target=path), policy) == "deny"


# --- calls of several requests -------------------------------------------------------------------


def test_the_strictest_request_decides_and_only_what_needs_a_yes_is_asked() -> None:
    verdict = judged([READ, WRITE, TEST, LOOK], Policy())

    assert verdict.kind == "ask"
    assert set(verdict.asked) == {WRITE, TEST}
    assert judged([READ, WRITE, Capability(kind="read", target=".env")], Policy()).kind == "deny"


def test_a_call_that_needs_nothing_is_allowed() -> None:
    assert judged([], Policy(mode="plan")).kind == "allow"


def test_what_is_asked_twice_is_asked_once() -> None:
    assert judged([WRITE, WRITE], Policy()).asked == (WRITE,)


# --- what holds for every policy -----------------------------------------------------------------

PATHS = st.sampled_from(
    ["a.py", "docs/a.md", ".env", ".git/hooks/x", "AGENTS.md", "../x", "/etc/x", "docs/*", "."]
)
LINES = st.sampled_from(
    [
        "git status",
        "git push",
        "npm test",
        "rm -rf /",
        "a | b",
        "$(x)",
        "git log -p",
        "cat .env",
        "",
    ]
)
REQUESTS = st.one_of(
    st.builds(
        lambda kind, target: Capability(kind=kind, target=target),
        st.sampled_from(["read", "write", "write_protected"]),
        PATHS,
    ),
    st.builds(read_command, LINES),
    st.builds(lambda line: outside(read_command(line)), LINES),
    st.sampled_from([HOST, TOOL, ASK]),
)
RULES = st.sampled_from(
    [
        *("exec: git *", "exec: *", "exec: rm **", "shell: *", "shell: a | b", "write: docs/**"),
        *("write: **", "read: **", "read: .env", "write_protected: **", "net: *", "tool: mcp.*"),
        *("ask_user: *", "outside: *", "outside: git *", "nonsense", "net: docs.python.org", ""),
    ]
)
LISTS = st.lists(RULES, max_size=3).map(tuple)
POLICIES = st.builds(
    Policy,
    mode=st.sampled_from(MODES),
    sandbox=st.sampled_from(["full", "partial", "none"]),
    allow=LISTS,
    ask=LISTS,
    deny=LISTS,
    narrowing_ask=LISTS,
    narrowing_deny=LISTS,
)
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def is_no_wider(after: Verdict, before: Verdict) -> bool:
    if STRICTNESS[after.kind] != STRICTNESS[before.kind]:
        return STRICTNESS[after.kind] > STRICTNESS[before.kind]
    return set(after.asked) >= set(before.asked)


@given(
    st.lists(REQUESTS, max_size=4),
    POLICIES,
    st.sampled_from(["ask", "deny", "narrowing_ask", "narrowing_deny"]),
    RULES,
    st.integers(0, 3),
)
def test_one_more_rule_that_narrows_never_widens(
    requests: list[Capability], policy: Policy, name: str, rule: str, at: int
) -> None:
    rules = getattr(policy, name)
    more = replace(policy, **{name: (*rules[:at], rule, *rules[at:])})

    assert is_no_wider(judged(requests, more), judged(requests, policy))


@given(st.lists(REQUESTS, max_size=4), POLICIES, st.sampled_from([(0, 1), (1, 2), (2, 3)]))
def test_a_stricter_mode_never_lets_more_happen(
    requests: list[Capability], policy: Policy, modes: tuple[int, int]
) -> None:
    stricter, looser = (judged(requests, replace(policy, mode=MODES[index])) for index in modes)

    assert is_no_wider(stricter, looser)


@given(st.lists(REQUESTS, max_size=4), POLICIES)
def test_a_worse_sandbox_never_lets_more_happen(requests: list[Capability], policy: Policy) -> None:
    levels: tuple[SandboxLevel, ...] = ("none", "partial", "full")
    none, partial, full = (judged(requests, replace(policy, sandbox=each)) for each in levels)

    assert is_no_wider(none, partial)
    assert is_no_wider(partial, full)


@given(st.lists(REQUESTS, max_size=4), REQUESTS, POLICIES)
def test_one_more_request_never_makes_a_call_more_harmless(
    requests: list[Capability], more: Capability, policy: Policy
) -> None:
    assert is_no_wider(judged([*requests, more], policy), judged(requests, policy))


@given(st.lists(REQUESTS, max_size=5), POLICIES, st.data())
def test_the_order_of_requests_does_not_matter(
    requests: list[Capability], policy: Policy, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(requests))

    assert judged(shuffled, policy) == judged(requests, policy)


@given(st.lists(REQUESTS, min_size=1, max_size=4), POLICIES)
def test_a_verdict_says_why_and_what_is_asked(requests: list[Capability], policy: Policy) -> None:
    verdict = judged(requests, policy)

    assert verdict.reason
    assert bool(verdict.asked) == (verdict.kind == "ask")
    assert bool(verdict.hint) == (verdict.kind != "allow")


@given(REQUESTS, POLICIES)
def test_nothing_secret_or_outside_is_allowed_but_by_its_name(
    request: Capability, policy: Policy
) -> None:
    if request.kind in ("read", "write", "write_protected") and request.target in (
        *(".env", "../x", "/etc/x"),
    ):
        is_named = request.target == ".env" and f"{request.kind}: .env" in policy.allow
        assert judged([request], policy).kind == "deny" or is_named


def test_a_question_says_whether_the_mode_auto_would_ask_it() -> None:
    assert judged([WRITE], Policy(mode="ask")).reason.endswith(
        "a change of src/a.py; auto does not."
    )
    assert judged([TEST], Policy(mode="ask", sandbox="full")).reason.endswith("auto does not.")
    assert "auto" not in judged([TEST], Policy(mode="ask", sandbox="partial")).reason
    assert "auto" not in judged([TEST, OUT], Policy(mode="ask", sandbox="full")).reason


def test_a_reason_shows_what_cannot_be_seen() -> None:
    line = Capability(kind="shell", target="echo \x1b[31m")

    assert "echo \u241b[31m" in judged([line], Policy()).reason
