"""How hard a model thinks: who says so, in which words a provider hears it, and how a refusal is told."""

import re
from typing import Any

import pytest
from ai_kit import LEVELS, ask, client_of, said
from support.dialect_server import AnthropicServer
from support.dialects import body_of
from support.openai_server import Fault, OpenAIServer, Reply

from midstream.core.run import Run, Turn, Visit
from midstream.language.errors import UserMistake
from midstream.language.names import Effort
from midstream.language.plan import plan_of
from midstream.language.spec import Role
from midstream.models.endpoints import is_offline, name_and_effort, require_name, with_effort
from midstream.models.model_choice import ModelChoice
from midstream.runtime.agent import WorkflowAgent
from midstream.testing.fakes import define


async def sent(level: str = "openai:gpt-5", role: Effort | None = None, chosen: str = "") -> Any:
    """Return the effort a request is sent with; `chosen` is what a person chose since the start."""
    with OpenAIServer([Reply(text="yes")]) as server:
        client = client_of(server, levels={"base": level})
        if chosen:
            client.use(chosen)
        reply = await ask(client, said(effort=role))
    (body,) = server.requests
    assert reply.usage is not None
    assert (reply.usage.model, body["model"]) == ("openai:gpt-5", "gpt-5")
    return body.get("reasoning_effort")


async def test_nothing_is_said_of_it_where_nobody_did() -> None:
    assert await sent() is None


async def test_a_choice_comes_before_the_role_and_the_role_before_the_settings() -> None:
    assert await sent("openai:gpt-5 low") == "low"
    assert await sent("openai:gpt-5 low", role="medium") == "medium"
    assert await sent("openai:gpt-5 low", role="medium", chosen="openai:gpt-5 high") == "high"


async def test_a_choice_without_one_leaves_it_to_the_role() -> None:
    assert await sent("openai:gpt-5 low", chosen="openai:gpt-5") is None
    assert await sent("openai:gpt-5 low", role="medium", chosen="openai:gpt-5") == "medium"


def test_each_provider_hears_it_in_its_own_words() -> None:
    request = said(effort="high")

    assert body_of(request, "openai:gpt-5")["reasoning_effort"] == "high"
    assert body_of(request, "anthropic:claude-opus-5")["output_config"] == {"effort": "high"}
    google = body_of(request, "google:gemini-3-pro-preview")
    assert google["generationConfig"]["thinkingConfig"]["thinking_level"] == "HIGH"
    assert "reasoning_effort" not in body_of(said(), "openai:gpt-5")
    assert "output_config" not in body_of(said(), "anthropic:claude-opus-5")


@pytest.mark.parametrize(
    "words",
    [
        "Unrecognized request argument supplied: reasoning_effort",
        "Unsupported value: 'reasoning_effort' does not support 'low' with this model.",
        "This model does not support the effort parameter.",
    ],
)
async def test_a_refusal_says_what_to_do(words: str) -> None:
    refusal = Fault(status=400, message=words)
    with OpenAIServer([refusal]) as server, pytest.raises(UserMistake) as caught:
        await ask(client_of(server), said(effort="low"))

    assert caught.value.what == f"openai:gpt-5 refused the effort it was asked for: {words} (400)"
    assert "/model NAME without one" in caught.value.hint
    assert "openai-responses:gpt-5" in caught.value.hint


async def test_a_model_that_does_not_know_it_refuses_and_the_role_is_named() -> None:
    with AnthropicServer([Reply(text="never")]) as server:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url}
        request = said(effort="low", model="anthropic:claude-haiku-4-5")
        with pytest.raises(UserMistake, match="does not support the effort parameter") as caught:
            await ask(client_of("", keys), request)

    assert "`effort` of the role" in caught.value.hint


def test_a_role_says_it_of_its_requests() -> None:
    workflow: dict[str, Any] = {
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": "dude", "context": "talk"}],
        "states": [{"name": "start", "agent": "dude"}],
    }
    definition = define(workflow, roles={"dude": Role(effort="low")})
    run = Run(
        id="r",
        definition=definition,
        plan=plan_of(definition.workflow),
        visit=Visit(phase="turn", state="start", turn=Turn(agent="dude")),
        contexts={"talk": ()},
    )

    assert WorkflowAgent(run, "dude").request().effort == "low"


def test_it_stands_behind_the_name() -> None:
    assert name_and_effort("openai:gpt-5 high") == ("openai:gpt-5", "high")
    assert name_and_effort("openai:gpt-5") == ("openai:gpt-5", None)
    assert with_effort("openai:gpt-5 high", "low") == "openai:gpt-5 low"
    assert require_name("openai:gpt-5 high") == "openai:gpt-5 high"
    assert is_offline("offline high")


def test_another_word_behind_the_name_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match="'hihg' is no effort") as caught:
        require_name("openai:gpt-5 hihg")

    assert "low or medium or high" in caught.value.hint


async def test_what_cannot_be_told_it_is_said_at_once() -> None:
    models = ModelChoice(client_of(""), LEVELS, is_offline=False, environ={"ZAI_API_KEY": "k"})

    told = await models.doubts("zai:glm-5 high")

    assert re.search("zai:glm-5 cannot be told how hard to think: high is left out.", told)
    assert "cannot be told" not in await models.doubts("zai:glm-5")
    assert "left out" in await models.doubts("offline low")


async def test_what_answers_a_level_is_told_with_it() -> None:
    models = ModelChoice(client_of(""), LEVELS, is_offline=False, environ={"OPENAI_API_KEY": "k"})
    models.use("openai:gpt-5 high", "base")

    assert models.describe() == "openai:gpt-5 high"
    assert (await models.window("base"))[0] == "openai:gpt-5"
