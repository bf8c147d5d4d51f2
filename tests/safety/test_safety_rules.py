"""Rules and grants: what a text `kind: pattern` covers, and above all what it does not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.capability import Capability, Kind, quoted
from midstream.safety.command_line import outside
from midstream.safety.rules import BadRule, capability_of, covers, is_obscure, read_rule


def run(*argv: str, kind: Kind = "exec") -> Capability:
    return Capability(kind=kind, target=quoted(argv), argv=argv)


def shell(line: str) -> Capability:
    return Capability(kind="shell", target=line)


def of(kind: Kind, target: str) -> Capability:
    return Capability(kind=kind, target=target)


@pytest.mark.parametrize(
    ("text", "argv", "is_covered"),
    [
        ("exec: git status", ("git", "status"), True),
        ("exec: git status", ("git", "status", "-s"), False),
        ("exec: git status", ("git",), False),
        ("exec: git status", ("Git", "status"), False),
        ("exec: git status", ("/usr/bin/git", "status"), False),
        ("exec: git log *", ("git", "log"), True),
        ("exec: git log *", ("git", "log", "-5", "x"), True),
        ("exec: git log *", ("git", "logs"), False),
        ("exec: git * origin", ("git", "push", "origin"), True),
        ("exec: git * origin", ("git", "push", "-f", "origin"), False),
        ("exec: git ** push **", ("git", "-C", ".", "push", "origin"), False),
        ("exec: git -C . push **", ("git", "-C", ".", "push", "origin"), False),
        ("exec: any ** push **", ("any", "a", "b", "push", "origin"), True),
        ("exec: git ** push **", ("git", "push"), True),
        ("exec: git ** push **", ("git", "pull"), False),
        ("exec: *", ("anything", "at", "all"), True),
        ("exec: echo '*'", ("echo", "*"), True),
        ("exec: echo '*'", ("echo", "a"), False),
        ('exec: echo "a b"', ("echo", "a b"), True),
        ("exec: echo a b", ("echo", "a b"), False),
        ("exec: caf\u00e9 x", ("cafe\u0301", "x"), True),
    ],
)
def test_a_command_is_covered_word_by_word(
    text: str, argv: tuple[str, ...], is_covered: bool
) -> None:
    assert read_rule(text).covers(run(*argv)) is is_covered


@pytest.mark.parametrize(
    ("text", "path", "is_covered"),
    [
        ("write: docs/**", "docs/a.md", True),
        ("write: docs/**", "docs/a/b/c.md", True),
        ("write: docs/**", "docs", True),
        ("write: docs/**", "documents/a.md", False),
        ("write: docs/**", "Docs/a.md", False),
        ("write: docs/*", "docs/a.md", True),
        ("write: docs/*", "docs/a/b.md", False),
        ("write: **/*.md", "a.md", True),
        ("write: **/*.md", "x/y/a.md", True),
        ("write: **/*.md", "x/y/a.mdx", False),
        ("write: a?.py", "ab.py", True),
        ("write: a?.py", "a/b.py", False),
        ("write: docs/\\*", "docs/*", True),
        ("write: docs/\\*", "docs/a", False),
        ("write: app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("write: app/[id]/page.tsx", "app/i/page.tsx", False),
        ("write: docs/**", "docs/../src/a.py", False),
        ("write: **", "/etc/passwd", False),
        ("write: **", "../x", False),
        ("write: **", "a//b", False),
        ("write: **", "any/thing", True),
        ("write: caf\u00e9.md", "cafe\u0301.md", True),
    ],
)
def test_a_path_is_covered_name_by_name(text: str, path: str, is_covered: bool) -> None:
    assert read_rule(text).covers(of("write", path)) is is_covered


@pytest.mark.parametrize(
    ("text", "host", "is_covered"),
    [
        ("net: docs.python.org", "docs.python.org", True),
        ("net: docs.python.org", "DOCS.python.org", True),
        ("net: docs.python.org", "docs.python.org.", True),
        ("net: docs.python.org", "docs.python.org:443", True),
        ("net: docs.python.org", "docs.python.org.evil.net", False),
        ("net: docs.python.org", "evil-docs.python.org", False),
        ("net: *.python.org", "docs.python.org", True),
        ("net: *.python.org", "a.b.python.org", True),
        ("net: *.python.org", "python.org", False),
        ("net: *.python.org", "evilpython.org", False),
        ("net: *.0.0.1", "[::0.0.1]", False),
        ("net: localhost:8080", "localhost:8080", True),
        ("net: localhost:8080", "localhost:9090", False),
        ("net: localhost:8080", "localhost", False),
        ("net: [::1]", "[::1]:80", True),
        ("net: *", "anything.example", True),
        ("net: *", "a b", False),
        ("net: *", "*", True),
        ("net: *:443", "*", False),
        ("net: \\*", "*", True),
        ("net: \\*", "example.org", False),
        ("net: \\*", "\\*", False),
        ("net: *.org", "*", False),
        ("net: *.org", "*.org", False),
        ("net: example.org", "ex\u0430mple.org", False),
        ("net: example.org", "user@example.org", False),
        ("net: example.org", "example.org/../x", False),
        ("net: 127.0.0.1", "[::ffff:7f00:1]", True),
        ("net: [::ffff:127.0.0.1]", "127.0.0.1:80", True),
        ("net: [0:0::1]", "[::1]", True),
        ("net: *", "127.1", False),
        ("net: *", "0x7f000001", False),
        ("net: *", "0177.0.0.1", False),
        ("net: *", "2130706433", False),
        ("net: *", "example.org:0", False),
        ("net: *", "example.org:65536", False),
        ("net: *", "1password.example", True),
        ("net: *", "mcp__server1", True),
        ("net: example.org:443", "example.org", False),
    ],
)
def test_a_host_is_covered_to_the_letter(text: str, host: str, is_covered: bool) -> None:
    assert read_rule(text).covers(of("net", host)) is is_covered


@pytest.mark.parametrize(
    ("text", "host", "is_concerned"),
    [
        ("net: example.org:443", "example.org", True),
        ("net: *.org:80", "example.org", True),
        ("net: example.org:8080", "example.org", False),
        ("net: example.org:443", "example.org:8443", False),
        ("net: example.org", "example.org:8443", True),
    ],
)
def test_a_host_without_a_port_stands_for_those_of_the_web(
    text: str, host: str, is_concerned: bool
) -> None:
    assert read_rule(text).concerns(of("net", host)) is is_concerned


@pytest.mark.parametrize(
    ("text", "capability", "is_covered"),
    [
        ("tool: mcp.github.*", of("tool", "mcp.github.create_issue"), True),
        ("tool: mcp.github.*", of("tool", "mcp.gitlab.create_issue"), False),
        ("tool: deploy", of("tool", "deploy_all"), False),
        ("shell: make | tee log", shell("make | tee log"), True),
        ("shell: make | tee log", shell("make  | tee log"), False),
        ("shell: make | tee log", shell("make | tee log\n"), False),
        ("shell: make *", shell("make all"), False),
        ("shell: *", shell("anything; at all"), True),
        ("shell: *", run("git", "status"), False),
        ("exec: *", shell("git status | cat"), False),
        ("write: **", of("write_protected", ".git/hooks/x"), False),
        ("write: **", of("read", "a"), False),
        ("write_protected: .github/**", of("write_protected", ".github/ci.yml"), True),
        ("outside: npm *", run("npm", "test", kind="outside"), True),
        ("outside: npm *", run("npm", "test"), False),
        ("exec: npm *", run("npm", "test", kind="outside"), False),
        ("shell: *", outside(shell("a | b")), False),
        ("outside: bash -c 'a | b'", outside(shell("a | b")), True),
        ("outside: bash -c 'a | b'", outside(shell("a | c")), False),
        ("exec: *", Capability(kind="exec", target="git status"), False),
    ],
)
def test_a_rule_is_about_its_own_kind(text: str, capability: Capability, is_covered: bool) -> None:
    assert read_rule(text).covers(capability) is is_covered


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("git status", 'not of the form `kind: pattern`. Such as "exec: git status".'),
        ("exce: git", "there is no kind \"exce\". Did you mean 'exec'?"),
        ("exec:", 'there is nothing after the colon. "exec: *" means everything.'),
        ("exec: ls src/*", "in `src/*` a * is not a word by itself. Write '*' in quotes"),
        ("exec: echo 'a", "a quote is not closed"),
        ("exec: a | b", "`|` means something to a shell. Use `shell: ...`"),
        ("exec: echo $HOME", "`$HOME` means something to a shell"),
        ("exec: a\x1b[2Jb", "it holds a control character"),
        ("write: /etc/hosts", "a path begins at the workspace's root"),
        ("write: ~/x", "a path begins at the workspace's root"),
        ("write: docs/", 'it ends in a slash. "docs/**" is everything in it.'),
        ("write: ../x", "`.`, `..` and empty names are not allowed"),
        ("write:  docs/a ", "there are spaces around the pattern"),
        ("net: https://example.org/", 'no host. A host such as "docs.python.org"'),
        ("net: ex*mple.org", "is no host"),
        ("net: b\u00fccher.example", "a host is written in ASCII"),
        ("sandboxed exec: a", "Leave out `sandboxed`: `exec: ...` is about the sandbox"),
        ("exec: " + "x" * 2_000, "2,000 are allowed"),
        ("", "not of the form"),
    ],
)
def test_what_is_no_rule_says_why_and_what_to_write(text: str, said: str) -> None:
    with pytest.raises(BadRule) as raised:
        read_rule(text)

    assert said in str(raised.value)
    assert raised.value.what.isprintable()


# --- a grant is never wider than what was seen ---------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["*", "**", "'*'", '"', "'", "\\", "a b", "", "-rf", "?", "\\*", "a*", "~", "$x", "\n", "a'b"]
)
TARGETS = st.builds("/".join, st.lists(WORDS, min_size=1, max_size=4)) | WORDS
CAPABILITIES = st.one_of(
    st.builds(
        lambda argv, kind: run(*argv, kind=kind),
        st.lists(WORDS, min_size=1, max_size=4),
        st.sampled_from(["exec", "outside"]),
    ),
    st.builds(
        lambda kind, target: Capability(kind=kind, target=target),
        st.sampled_from(["read", "write", "write_protected", "shell", "tool", "net"]),
        TARGETS,
    ),
    st.builds(lambda line: outside(shell(line)), TARGETS),
)


@pytest.mark.parametrize(
    "capability",
    [of("net", "*"), of("net", "a.org"), of("write", "a*b"), of("tool", "t"), run("ls", "*")],
)
def test_what_a_refusal_says_to_allow_is_a_rule(capability: Capability) -> None:
    assert read_rule(str(capability)).covers(capability)
    assert capability_of(str(capability)) == capability


@given(CAPABILITIES)
def test_a_grant_covers_the_capability_it_was_made_of(capability: Capability) -> None:
    assert covers([str(capability)], capability)


@given(CAPABILITIES, CAPABILITIES)
def test_a_grant_covers_no_other_capability(granted: Capability, other: Capability) -> None:
    # A host is one in capitals, too.
    is_same = _composed(granted) == _composed(other)

    assert granted.kind == "net" or is_same or not covers([str(granted)], other)


def _composed(capability: Capability) -> str:
    return unicodedata.normalize("NFC", str(capability))


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        (of("write", "**"), of("write", "src/a.py")),
        (of("write", "docs/*"), of("write", "docs/a.md")),
        (of("write", "a?"), of("write", "ab")),
        (of("write", "docs/a "), of("write", "docs/a")),
        (run("rm", "*"), run("rm", "-rf", "/")),
        (run("echo", "**"), run("echo", "a", "b")),
        (run("echo", "a b"), run("echo", "a", "b")),
        (shell("*"), shell("rm -rf /")),
        (shell("\\*"), shell("*")),
        (of("tool", "*"), of("tool", "deploy")),
        (of("net", "*"), of("net", "evil.example")),
        (of("net", "*.org"), of("net", "evil.org")),
        (run("npm", "test"), run("npm", "test", kind="outside")),
        (run("npm", "test", kind="outside"), run("npm", "test")),
        (outside(shell("rm *")), outside(shell("rm a"))),
        (of("write", "x\nwrite: **"), of("write", "a")),
        (Capability(kind="exec", target="*"), run("rm")),
        (Capability(kind="exec", target="ls *", argv=("ls",)), run("ls", "-R")),
    ],
)
def test_wildcards_a_model_chose_stay_letters(granted: Capability, asked: Capability) -> None:
    assert covers([str(granted)], granted)
    assert not covers([str(granted)], asked)


def test_grants_that_are_no_rules_cover_nothing_else() -> None:
    assert not covers(["shown: 1234", "execute_terminal", "", "exec: 'a", ":"], run("a"))


# --- what asks and denies is matched loosely -----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("exec: git push *", run("git", "push")),
        ("exec: git push *", run("/usr/bin/git", "push", "-f")),
        ("exec: git push *", run("GIT", "push")),
        ("exec: git push *", run("env", "GIT_TRACE=1", "git", "push")),
        ("exec: git push *", run("nice", "-n", "5", "git", "push")),
        ("exec: git push *", run("timeout", "5", "/bin/git", "push")),
        ("exec: git push *", run("bash", "-c", "cd x && git push")),
        ("exec: git push *", shell("make && git push")),
        ("exec: git push *", shell("g'i't pu\\sh")),
        ("exec: git push *", shell("true;/usr/bin/git push")),
        ("exec: /usr/bin/git push *", run("git", "push")),
        ("exec: rm *", run("find", ".", "-exec", "rm", "{}", ";")),
        ("exec: *", shell("x")),
        ("shell: git push", run("git", "push")),
        ("write: Secret/**", of("write", "secret/a")),
        ("write: secret/**", of("write", "SECRET./a")),
        ("write: secret/**", of("write", "./se\u200bcret/a")),
        ("write: secret/**", of("write_protected", "secret/.git/x")),
        ("read: **/*.KEY2", of("read", "a/b.key2")),
    ],
)
def test_a_rule_that_denies_concerns_other_spellings(text: str, capability: Capability) -> None:
    assert read_rule(text).concerns(capability)


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("exec: git push *", run("git", "pull")),
        ("exec: git push *", run("git", "commit", "-m", "never git push here")),
        ("exec: git push *", shell("git pull | cat")),
        ("write: secret/**", of("write", "secrets/a")),
        ("read: a", of("write", "a")),
        ("outside: a", run("a")),
    ],
)
def test_a_rule_that_denies_leaves_the_rest_alone(text: str, capability: Capability) -> None:
    assert not read_rule(text).concerns(capability)


@given(CAPABILITIES, st.sampled_from(["exec: git *", "write: **/a*", "shell: *", "read: a/**"]))
def test_what_a_rule_covers_it_concerns(capability: Capability, text: str) -> None:
    rule = read_rule(text)

    assert rule.concerns(capability) or not rule.covers(capability)


@pytest.mark.parametrize(
    "line", ["$(x) push", "`x`", "gi? push", "g\\it", "eval x", ". ./x", "a\nb"]
)
def test_a_line_that_may_hide_a_program_is_obscure(line: str) -> None:
    assert is_obscure(line)


@pytest.mark.parametrize("line", ["make && ./run", "a | b > c", "cd src; npm test", "x 'a b'"])
def test_a_line_of_plain_words_is_not(line: str) -> None:
    assert not is_obscure(line)


def test_a_pattern_of_many_wildcards_is_matched_in_no_time() -> None:
    text = "write: " + "*a" * 300 + "b"

    assert not read_rule(text).covers(of("write", "a" * 4_000))
