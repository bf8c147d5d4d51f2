"""The first screen as text, at every width."""

import pytest

from midstream.views.welcome_screen import Endpoint, Found, Key, welcome

OLLAMA = Endpoint(program="Ollama", port=11434, models=("nomic-embed-text", "qwen3:8b", "llama3.2"))
STUDIO = Endpoint(program="LM Studio", port=1234, models=("openai/gpt-oss-20b",))
GOOGLE = Key(name="GOOGLE_API_KEY", provider="google", extra="google")
NOTHING = Found(model="offline", is_offline=True, has_code=False)


def test_with_nothing_at_all_it_says_so_and_what_still_works() -> None:
    assert (
        welcome(NOTHING, width=78)
        == """\
midstream is a console for AI coding: you chat with one agent or start a
workflow of several, and go on typing while they work.

Found
  no key     OPENAI_API_KEY and similar keys are not set
  no server  no Ollama, LM Studio, vLLM, llama.cpp on this machine

Until you choose a model the built-in offline model answers. It is no LLM and
cannot chat, but it plays its part in a workflow: you can try everything else.

Try
  /workflows  what several agents do together
  !ls         a command in your own shell
  ?           on an empty line: the keys

/welcome shows this again, /help lists the commands, /config the settings."""
    )


def test_a_server_on_this_machine_is_offered_with_a_model_that_chats() -> None:
    found = Found(model="offline", is_offline=True, has_code=True, endpoints=(OLLAMA,))
    lines = welcome(found, width=78).splitlines()

    assert "  Ollama :11434  /model ollama:qwen3:8b and 2 more" in lines
    assert "  /model ollama:qwen3:8b              then say hello" in lines
    assert "  /workflow code_architecture_review  type while its three reviewers run" in lines


def test_a_key_is_named_and_how_its_models_are_used() -> None:
    used = Key(name="OPENAI_API_KEY", provider="openai")
    found = Found(model="openai:gpt-5", is_offline=False, has_code=True, keys=(used, GOOGLE))
    text = welcome(found, width=78)

    assert "OPENAI_API_KEY  is set, and used" in text
    assert "GOOGLE_API_KEY  is set; needs pip install 'midstream[google]'" in text
    assert "openai:gpt-5 answers." in text


@pytest.mark.parametrize("width", [20, 38, 78, 198])
@pytest.mark.parametrize("has_code", [True, False])
@pytest.mark.parametrize("is_offline", [True, False])
def test_it_fits_every_width_and_at_80_columns_one_screen(
    width: int, has_code: bool, is_offline: bool
) -> None:
    keys = tuple(Key(name=f"PROVIDER_{n}_API_KEY", provider="p") for n in range(6))
    servers = (OLLAMA, STUDIO, Endpoint(program="vLLM", port=8000))
    found = Found(
        model="offline" if is_offline else "openai:gpt-5",
        is_offline=is_offline,
        has_code=has_code,
        keys=keys,
        endpoints=servers,
    )
    for each in (found, NOTHING):
        lines = welcome(each, width=width).splitlines()
        assert max(map(len, lines)) <= width
        if width >= 78:
            assert len(lines) <= 20
