"""Which model answers, and whether anything is set up for it."""

import pytest
from ai_kit import Ears, ask, client_of, said
from support.openai_server import OpenAIServer, Reply, refused_url

from midstream.language.errors import UserMistake
from midstream.models.endpoints import is_configured
from midstream.models.prices import known_names, load
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener


class Parrot:
    """An offline model that says what it was told last."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        listener.text(request.messages[-1].text)
        return ModelReply(text=request.messages[-1].text)


async def test_each_level_has_its_model_and_a_request_may_name_its_own() -> None:
    with OpenAIServer(default=Reply(text="hi")) as server:
        for fields in ({}, {"level": "smart"}, {"level": "fast", "model": "openai:gpt-4.1"}):
            await ask(client_of(server), said(**fields))

    assert [body["model"] for body in server.requests] == ["gpt-5", "gpt-5-pro", "gpt-4.1"]


def test_a_model_in_use_answers_every_level_until_it_is_given_up() -> None:
    client = client_of(refused_url())

    client.use("openai:gpt-4.1")
    assert client.describe() == dict.fromkeys(("base", "smart", "fast"), "openai:gpt-4.1")
    assert client.model_for("smart") == "openai:gpt-4.1"

    client.use(None)
    assert client.model_for("smart") == "openai:gpt-5-pro"


@pytest.mark.parametrize("name", ["gpt-5", "openai:", ":gpt-5", " "])
def test_a_name_without_provider_or_model_changes_nothing(name: str) -> None:
    client = client_of(refused_url())

    with pytest.raises(UserMistake, match="such as openai:gpt-5"):
        client.use(name)

    assert client.model_for() == "openai:gpt-5"


def test_a_level_that_does_not_exist_suggests_the_nearest() -> None:
    with pytest.raises(UserMistake, match="Did you mean 'smart'"):
        client_of(refused_url()).model_for("smrt")


@pytest.mark.parametrize("name", ["offline", "offline:review"])
async def test_offline_names_go_to_the_offline_model(name: str) -> None:
    ears = Ears()

    reply = await ask(client_of(refused_url(), offline=Parrot()), said("echo", model=name), ears)

    assert (reply.text, ears.words) == ("echo", "echo")


async def test_without_an_offline_model_its_name_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match="no offline model"):
        await ask(client_of(refused_url()), said(model="offline"))


@pytest.mark.parametrize(
    ("environ", "name", "expected"),
    [
        ({"OPENAI_API_KEY": "sk-1"}, "openai:gpt-5", True),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}, "openai:llama3", True),
        ({"OPENAI_API_KEY": "  "}, "openai:gpt-5", False),
        ({"OPENAI_API_KEY": "sk-1"}, "anthropic:claude-sonnet-4-5", False),
        ({"GEMINI_API_KEY": "g"}, "google:gemini-2.5-pro", True),
        ({}, "offline", True),
        ({}, "bedrock:anthropic.claude", True),
    ],
)
def test_a_model_is_configured_when_its_key_or_endpoint_is_there(
    environ: dict[str, str], name: str, expected: bool
) -> None:
    assert is_configured(environ, {"base": name}) is expected


def test_one_configured_level_is_enough() -> None:
    levels = {"base": "anthropic:claude-sonnet-4-5", "fast": "openai:gpt-5-mini"}

    assert is_configured({"OPENAI_API_KEY": "sk-1"}, levels)


def test_models_are_offered_by_name_where_there_is_a_key_for_them() -> None:
    import genai_prices.data  # known names are only those of a list that is loaded

    assert genai_prices.data is not None
    assert known_names({}) == ()
    offered = known_names({"ANTHROPIC_API_KEY": "key"})
    assert offered
    assert all(name.startswith("anthropic:") for name in offered)


def test_models_are_offered_once_and_only_to_talk_to() -> None:
    load()
    offered = known_names({"OPENAI_API_KEY": "key", "ANTHROPIC_API_KEY": "key"})
    assert {name.partition(":")[0] for name in offered} == {"openai", "anthropic"}
    assert {"openai:gpt-5", "openai:gpt-4o", "anthropic:claude-sonnet-4-5"} <= {*offered}
    others = ("text-embedding-3-large", "whisper-1", "tts-1", "gpt-image-1", "ada", "gpt-realtime")
    assert not {f"openai:{name}" for name in others} & {*offered}
