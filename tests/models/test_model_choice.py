"""Choosing a model: for all levels or one, back again, and what is known of a wrong name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ai_kit import LEVELS, client_of
from deadline import DEADLINE_S
from support.openai_server import refused_url

from midstream.language.errors import UserMistake
from midstream.models.model_choice import ModelChoice

KEYS = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}


def choice(*, is_offline: bool = False, **environ: str) -> ModelChoice:
    client = client_of(refused_url())
    return ModelChoice(client, LEVELS, is_offline=is_offline, environ=environ or KEYS)


def used(models: ModelChoice) -> list[str]:
    return [name for _, name, _ in models.levels()]


def test_one_level_is_set_and_the_others_stay() -> None:
    models = choice()

    models.use("openai:o3", "smart")
    assert used(models) == ["openai:gpt-5", "openai:o3", "openai:gpt-5-mini"]
    assert [setting for _, _, setting in models.levels()] == [*LEVELS.values()]

    models.use(None, "smart")
    assert used(models) == [*LEVELS.values()]


def test_a_model_for_all_ends_that_of_one_and_one_may_follow_it() -> None:
    models = choice()

    models.use("openai:o3", "smart")
    models.use("anthropic:claude-x")
    assert used(models) == ["anthropic:claude-x"] * 3

    models.use("openai:o3", "fast")
    assert used(models) == ["anthropic:claude-x", "anthropic:claude-x", "openai:o3"]

    models.use(None)
    assert used(models) == [*LEVELS.values()]


async def test_a_request_goes_to_the_model_of_its_level() -> None:
    models = choice()
    models.use("openai:o3", "smart")

    assert [(await models.window(level))[0] for level in LEVELS] == used(models)


def test_offline_stays_offline_but_for_the_level_that_is_set() -> None:
    models = choice(is_offline=True)
    assert used(models) == ["offline"] * 3

    models.use("openai:o3", "smart")
    assert used(models) == ["offline", "openai:o3", "offline"]

    models.use(None, "smart")
    assert used(models) == ["offline"] * 3


def test_a_level_that_does_not_exist_changes_nothing() -> None:
    models = choice()

    with pytest.raises(UserMistake, match="Did you mean 'smart'"):
        models.use("openai:o3", "smrt")

    assert used(models) == [*LEVELS.values()]


def test_every_choice_is_told_to_the_settings() -> None:
    heard: list[tuple[str | None, str | None]] = []
    models = ModelChoice(
        client_of(refused_url()),
        LEVELS,
        is_offline=False,
        remember=lambda name, level: heard.append((name, level)),
        environ=KEYS,
    )
    models.use("openai:o3", "smart")
    models.use(None)

    assert heard[1:] == [("openai:o3", "smart"), (None, None)]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("opnai:gpt-5", "No provider of models is called 'opnai'"),
        ("gpt-5", "is not the name of a model"),
        ("offlin", "Did you mean offline"),
        ("groq:llama", "GROQ_API_KEY is not set"),
    ],
)
async def test_what_cannot_be_meant_is_refused(name: str, match: str) -> None:
    with pytest.raises(UserMistake, match=match):
        await choice().doubts(name)


async def test_a_name_nobody_knows_is_doubted_and_a_known_one_is_not() -> None:
    doubts = await choice().doubts("openai:gpt-5.6-slo")
    assert "gpt-5.6-slo is no name of openai that is known here" in doubts
    assert "Did you mean openai:gpt-5.6-sol?" in doubts
    assert await choice().doubts("openai:gpt-5.6-sol") == ""
    assert await choice().doubts("offline") == ""
    own = choice(OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert await own.doubts("openai:anything") == ""


NAMES = """
import asyncio
from test_model_choice import choice

async def main():
    models = choice(OPENAI_API_KEY="sk-1")
    before = models.names()
    await models.look_here()
    print(before, "openai:gpt-5" in models.names(), any("claude" in n for n in models.names()))

asyncio.run(main())
"""


def test_names_are_known_once_somebody_looks_for_them() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", NAMES],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2]))},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )

    assert ran.stdout.strip() == "() True False"
