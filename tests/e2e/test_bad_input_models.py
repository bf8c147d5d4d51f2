"""Models that fail or answer oddly: each is told with what to do, and the chat goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from console_kit import changed
from pipes_kit import MODEL, Brain, Session, of_type, run, settings
from support.openai_server import Call, Fault, OpenAIServer, Reply, Step


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file; once it is there, it is some minutes later for the chat."""
    return tmp_path_factory.mktemp("clock") / "later"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory, later: Path) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("home")
    settings(home, modelPatience={"attempts": 2, "silenceSeconds": 600})
    program = changed(
        "import asyncio, os",
        "now = asyncio.BaseEventLoop.time",
        f"is_later = lambda: os.path.exists({str(later)!r})",
        "asyncio.BaseEventLoop.time = lambda loop: now(loop) + 1000 * is_later()",
    )
    brain = Brain()
    with OpenAIServer(default=brain) as server:
        session = Session(home, server, brain, program)
        yield session
        ended = session.close()
        assert ended.code == 0
        assert ended.err == ""


@pytest.mark.parametrize(
    ("fault", "error", "hint"),
    [
        (Fault(status=429), "accepts no more requests for now", "Wait a little"),
        (Fault(status=500), "the provider has trouble", "Try again later"),
        (Fault(how="close"), "the connection failed", "Check the network"),
        (Fault(how="close_mid", text="Once"), "was cut off", "Say it again"),
        (Fault(how="cut_mid", text="Once"), "was cut off", "Say it again"),
        (Fault(how="hang_mid", text="Once"), "fell silent", "modelPatience"),
        (Fault(how="bad_json", text="Once"), "sent a reply that cannot be read", "is a model API"),
        (Fault(how="error_mid", text="Once"), "was cut off", "Say it again"),
        (Fault(how="html"), "sent a reply that cannot be read", "is a model API"),
        (Fault(status=401), "refused the key", "OPENAI_API_KEY"),
        (Fault(status=404), "was not found", "Check the model's name"),
    ],
    ids=lambda value: (
        (value.how if not value.status else value.status) if isinstance(value, Fault) else ""
    ),
)
def test_a_model_that_fails_is_told_and_the_chat_goes_on(
    chat: Session, later: Path, fault: Fault, error: str, hint: str
) -> None:
    told = []
    for event in chat.saying("Tell me.", *([fault] * 10)):
        told.append(event)
        if fault.how == "hang_mid" and event["type"] == "text_delta":
            later.touch()

    (failed,) = of_type(told, "agent_failed")
    assert "openai:gpt-4o-mini" in failed["error"]
    assert error in failed["error"]
    assert hint in failed["hint"]
    assert failed.get("partial", "") == fault.text
    assert (
        of_type(chat.say("And now?", Reply(text="Back.")), "agent_responded")[0]["text"] == "Back."
    )


@pytest.mark.parametrize("status", [429, 500])
def test_what_passes_by_itself_is_tried_again_and_said_so(chat: Session, status: int) -> None:
    told = chat.say("Tell me.", Fault(status=status), Reply(text="Here."))

    assert not of_type(told, "agent_failed")
    assert of_type(told, "agent_responded")[0]["text"] == "Here."
    waits = [event["status"] for event in of_type(told, "agent_thinking") if "status" in event]
    assert "trying again in" in waits[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call(name="read_file", arguments={}), "There is no tool 'read_file'"),
        (Call(name="functions.read_files"), "There is no tool 'functions.read_files'"),
        (Call(name="read_files", arguments="{paths: a}"), "they are not JSON"),
        (Call(name="read_files", arguments="[]"), "a JSON array, not an object"),
        (Call(name="read_files", arguments={"path": "a"}), "'paths' is a required property"),
        (Call(name="read_files", arguments='{"paths": [NaN]}'), "NaN is not a JSON number"),
    ],
    ids=lambda value: value.name + str(value.arguments)[:9] if isinstance(value, Call) else "",
)
def test_a_wrong_tool_call_is_explained_to_the_model_which_goes_on(
    chat: Session, call: Call, words: str
) -> None:
    told = chat.say("Read it.", Reply(calls=(call,)), Reply(text="I see."))

    (returned,) = of_type(told, "tool_returned")
    assert returned["outcome"] == "failed"
    assert words in returned["result"]
    assert of_type(told, "agent_responded")[-1]["text"] == "I see."


def test_a_model_that_says_nothing_is_asked_again_and_then_given_up(chat: Session) -> None:
    told = chat.say("Say something.", *([Reply(text="")] * 3))

    assert "Your reply was empty" in of_type(told, "agent_responded")[0]["problem"]
    (failed,) = of_type(told, "agent_failed")
    assert "3 unusable replies" in failed["error"]
    assert failed["hint"]


def test_control_characters_of_a_model_are_ascii_in_json(chat: Session) -> None:
    told = chat.say("Paint.", Reply(text="\x1b[2J\x9b31m\u202egnp\x07"))

    assert of_type(told, "agent_responded")[0]["text"] == "\x1b[2J\x9b31m\u202egnp\x07"


@pytest.mark.parametrize(
    ("step", "patience", "words"),
    [
        (Fault(how="hang"), {"firstByteSeconds": 0.5}, "did not begin to answer within 0.5 s"),
        (Fault(status=500), {"attempts": 1}, "the provider has trouble"),
    ],
    ids=["hangs", "fails"],
)
def test_without_a_console_a_failing_model_is_exit_code_1(
    tmp_path: Path, step: Step, patience: dict[str, float], words: str
) -> None:
    settings(tmp_path, modelPatience=patience)
    with OpenAIServer([step]) as server:
        ended = run(tmp_path, "chat", "Hello?", *MODEL, server=server)

    assert ended.code == 1
    assert ended.out == ""
    assert words in ended.told


def test_a_workflow_whose_model_fails_says_where(tmp_path: Path) -> None:
    with OpenAIServer([Fault(status=400, message="no such luck")]) as server:
        ended = run(tmp_path, "run", "coder_reviewer", "mend it", *MODEL, server=server)

    assert ended.code == 1
    assert ended.out == ""
    assert "failed in start" in ended.told
    assert "no such luck" in ended.told
