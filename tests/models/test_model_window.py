"""How much a model takes at once, where the list of prices knows it."""

import pytest

from midstream.models.prices import window_of


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "openai-responses:gpt-4o-mini"])
def test_the_window_of_a_known_model_is_told(name: str) -> None:
    assert window_of(name) == 128_000


@pytest.mark.parametrize("name", ["offline", "ollama:llama3", "openai:no-such-model", "", "a:b:c"])
def test_that_of_any_other_is_not_known(name: str) -> None:
    assert window_of(name) is None
