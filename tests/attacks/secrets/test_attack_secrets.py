"""Secrets planted where models, tools, scripts and errors could say them: nobody keeps or shows them.

Each canary is told in its own way; afterwards every byte of the state folder (the journal, its WAL,
what lies beside it), of stdout and of stderr is looked through for it.
"""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from console_kit import console, write_workflow
from pipes_kit import MODEL, OFFLINE, Ended, events, run, settings, workspace_of
from support.openai_server import Call, OpenAIServer, Reply
from tables import table

OWN = {
    "CANARY_SECRET_KEY": "own-canary/of+the environment=1",
    "DEPLOY_TOKEN": "correct-horse-battery-staple",
    "DATABASE_URL": "postgres://ada:ticklish-otter@db/app",
}
SECRET = OWN["CANARY_SECRET_KEY"]
B64 = base64.b64encode(f"user:{SECRET}".encode()).decode()

CANARIES = {
    "the value of our own key": SECRET,
    "a token of ours": OWN["DEPLOY_TOKEN"],
    "the password in an URL of ours": "ticklish-otter",
    "our key, percent-encoded": quote(SECRET, safe=""),
    "our key behind a user's name, in Base64": B64,
    "our key in hexadecimal": SECRET.encode().hex(),
    "a key of OpenAI": "sk-proj-" + "c4nAry0penA1" * 4,
    "a key of Anthropic": "sk-ant-api03-" + "c4nAry4nthr0p1c" * 3,
    "a key id of AWS": "AKIA4CANARY7AWS2KEY9",
    "a secret key of AWS": "aws_secret_access_key = " + "c4nAry/Aws+K3y" * 3,
    "a token of GitHub": "ghp_" + "c4nAryG1tHub" * 3,
    "a token of Slack": "xoxb-4444444444-c4nArySlAck",
    "a key of Stripe": "sk_live_" + "c4nAryStr1pe" * 2,
    "a JWT": "eyJhbGciOiJub25lIn0.eyJjNG5BcnkiOiJqd3QifQ.c4nAryS1gn4ture",
    "a private key": "-----BEGIN PRIVATE KEY-----\n"
    + "MIIc4nAryPEMk3y0" * 4
    + "\n-----END PRIVATE KEY-----",
    "a bearer header": "Authorization: Bearer c4nAryBearer0123456789",
    "a password in a URL": "https://bot:c4nAryUr1@git.example.com/x.git",
    "a password assigned": 'password = "c4nAry-4ss1gned"',
    "a variable of an .env": "SERVICE_SECRET=c4nAryEnv7Secret",
}
MARKS = dict(CANARIES)
"""What must not be found: of those with words around them, the secret alone."""
MARKS |= {
    "a secret key of AWS": "c4nAry/Aws+K3y",
    "a private key": "MIIc4nAryPEMk3y0",
    "a bearer header": "c4nAryBearer0123456789",
    "a password in a URL": "c4nAryUr1",
    "a password assigned": "c4nAry-4ss1gned",
    "a variable of an .env": "c4nAryEnv7Secret",
    "our key behind a user's name, in Base64": B64[8:-4],
}
NAMES = sorted(CANARIES)


def everything_kept(home: Path, *ended: Ended) -> Iterator[tuple[str, bytes]]:
    """Yield every byte the program left: by where it is."""
    for path in sorted((home / "state").rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()
        yield f"the name of {path}", path.name.encode()
    for each in ended:
        yield "stdout", each.out.encode()
        yield "stderr", each.err.encode()


def leaks(home: Path, *ended: Ended) -> list[str]:
    return [
        f"{name} in {where}"
        for where, data in everything_kept(home, *ended)
        for name, mark in MARKS.items()
        if mark.encode() in data
    ]


def _is_open_to_others(path: Path) -> bool:
    """Tell so of files and folders; a sandbox's devices stand behind a private folder."""
    mode = path.lstat().st_mode
    return bool(mode & 0o077) and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _said(name: str) -> str:
    return f"It says:\n{CANARIES[name]}\nThat is all."


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ended]]:
    """Let everybody say every canary, once, and show what came of it in every way there is."""
    home = tmp_path_factory.mktemp("secrets")
    everything = "\n\n".join(CANARIES.values())
    (workspace_of(home) / "notes.txt").write_text(everything, encoding="utf-8")
    (home / "told").write_text("\0".join(CANARIES.values()), encoding="utf-8")
    environ = OWN | {"TOLD": str(home / "told")}
    script = (
        "import os\nfrom pathlib import Path\n\n"
        "# A run keeps its script's text as it is: what it tells stands elsewhere.\n"
        "CANARIES = Path(os.environ['TOLD']).read_text().split('\\0')\n\n\n"
        "def leak(run):\n"
        "    for each in CANARIES:\n"
        "        run.log(each)\n"
        "        print(each)\n"
        "        os.write(2, each.encode() + b'\\n')\n"
        "    run.common_data['all'] = {'list': CANARIES, **{c: 1 for c in CANARIES}}\n"
        "    run.variables['all'] = CANARIES\n\n\n"
        "def fail(run):\n"
        "    raise ValueError('\\n'.join(CANARIES))\n"
    )
    leaky = {
        "workflow_name": "leaky",
        "variables": {"all": []},
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": "dude", "context": "desk"}],
        "states": [
            {"name": "start", "pre_handler": "leak", "agent": "dude", "next": "stop"},
            {"name": "stop", "input": "common_data.all"},
        ],
    }
    failing = {
        "workflow_name": "failing",
        "states": [{"name": "start", "pre_handler": "fail"}, {"name": "stop"}],
    }
    for name, workflow in (("leaky", leaky), ("failing", failing)):
        write_workflow(home / "config", name, workflow, script)
    settings(home)
    calls = (
        Call(name="read_file", arguments={"path": "notes.txt"}),
        Call(name="no_such_tool", arguments={"all": everything, everything: [everything]}),
        Call(name="write_file", arguments={"path": "out.txt", "content": everything}),
    )
    steps = [Reply(text=everything, calls=calls), Reply(text=everything)] * 3
    with OpenAIServer(steps) as server:
        common = {"server": server, "env": environ}
        ended = [
            run(home, "run", "leaky", *MODEL, "--allow", "write_file", **common),  # type: ignore[arg-type]
            run(home, "run", "leaky", *MODEL, "--json", **common),  # type: ignore[arg-type]
            run(home, "run", "failing", *OFFLINE, env=environ),
            run(home, "run", "failing", *OFFLINE, "--json", env=environ),
        ]
    listed = run(home, "runs", "--json", env=OWN).out
    ids = [each["run"] for each in events(listed)]
    for id in ids:
        ended += [
            run(home, "show", id, env=OWN),
            run(home, "events", id, env=OWN),
            run(home, "events", id, "--json", env=OWN),
            run(home, "export", id, env=OWN),
        ]
    assert len(ids) == 4
    return home, ended


@table("name", NAMES)
def test_no_canary_is_kept_or_shown(told: tuple[Path, list[Ended]], name: str) -> None:
    home, ended = told

    assert [leak for leak in leaks(home, *ended) if leak.startswith(f"{name} in")] == []


def test_the_canaries_had_been_told(told: tuple[Path, list[Ended]]) -> None:
    _, ended = told

    shown = "".join(each.out + each.err for each in ended)
    for kind in (
        "$CANARY_SECRET_KEY",
        "openai key",
        "private key",
        "jwt",
        "password",
        "github token",
    ):
        assert f"[redacted: {kind}]" in shown


def test_a_file_is_written_exactly_as_the_model_sent_it(told: tuple[Path, list[Ended]]) -> None:
    home, _ = told
    written = workspace_of(home) / "out.txt"

    assert written.read_text(encoding="utf-8") == "\n\n".join(CANARIES.values())


def test_what_is_kept_is_for_its_owner_alone(told: tuple[Path, list[Ended]]) -> None:
    home, _ = told
    kept = [home / "state", *(home / "state").rglob("*")]

    assert len(kept) > 2
    assert [str(path) for path in kept if _is_open_to_others(path)] == []


def test_a_private_file_is_private_whatever_the_umask_says(tmp_path: Path) -> None:
    run(tmp_path, "chat", "hello", *OFFLINE, before=lambda: (os.umask(0), None)[1])
    kept = [tmp_path / "state", *(tmp_path / "state").rglob("*")]

    assert len(kept) > 2
    assert [str(path) for path in kept if _is_open_to_others(path)] == []


@table("name", ["a key of OpenAI", "a private key", "the value of our own key"])
def test_a_secret_streamed_in_crumbs_never_stands_on_the_screen(tmp_path: Path, name: str) -> None:
    with OpenAIServer([Reply(text=_said(name))]) as server:
        os.environ.update(OWN)
        try:
            screen = console(tmp_path, "--model", "openai:gpt-4o-mini", server=server)
        finally:
            for key in OWN:
                del os.environ[key]
        with screen:
            screen.wait_for("chat with dude")
            screen.type("go\r")
            screen.wait_for("That is all.")
            assert MARKS[name].encode() not in bytes(screen.raw)
            screen.wait_for("[redacted: ")


@table(
    "arguments",
    [
        ("--no-such-option=" + CANARIES["a key of OpenAI"],),
        ("run", CANARIES["a token of GitHub"], *OFFLINE),
        ("show", CANARIES["a key of Anthropic"]),
        ("validate", CANARIES["a JWT"]),
        ("chat", "hi", "--model", CANARIES["a key of OpenAI"]),
        ("chat", "hi", *OFFLINE, "--allow", SECRET),
    ],
)
def test_an_error_of_the_command_line_repeats_no_secret(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ended = run(tmp_path, *arguments, env=OWN)

    assert ended.code != 0
    assert leaks(tmp_path, ended) == []


def test_what_a_person_typed_is_kept_for_the_model_but_shown_to_no_program(tmp_path: Path) -> None:
    words = f"my key is {CANARIES['a key of OpenAI']}"
    ended = run(tmp_path, "chat", words, *OFFLINE, "--json")

    assert ended.code == 0
    assert "[redacted: openai key]" in ended.out
    assert CANARIES["a key of OpenAI"] not in ended.out + ended.err


def test_a_placeholder_is_never_written_in_place_of_a_secret(tmp_path: Path) -> None:
    content = "TOKEN=[redacted: github token]\n"
    call = Call(name="write_file", arguments={"path": ".config", "content": content})
    with OpenAIServer([Reply(calls=(call,)), Reply(text="Done.")]) as server:
        run(tmp_path, "chat", "write", *MODEL, "--allow", "write_file", server=server)

        assert not (workspace_of(tmp_path) / ".config").exists()
        assert "stands for a secret" in str(server.requests[-1])
