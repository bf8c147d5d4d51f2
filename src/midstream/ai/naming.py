"""Models by name: what `openai:gpt-5` needs, and what it is called where a level is meant."""

import sys
from collections.abc import Collection, Mapping
from typing import Final, get_args

from midstream.core.errors import UserMistake
from midstream.core.nearest import did_you_mean

OFFLINE: Final = "offline"

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "ollama": (),
    "xai": ("XAI_API_KEY",),
}
"""The environment variables of which one is enough to use a provider's models.

Ollama takes no key, and is where it always is, unless OLLAMA_BASE_URL says otherwise.
"""


def key_names(provider: str) -> tuple[str, ...]:
    """Return the environment variables of which one sets a provider up; none for an unknown one."""
    return KEYS.get(provider, ())


def provider_of(name: str) -> str:
    """Return the provider's part of a model's name, such as `openai` of `openai:gpt-5`."""
    return name.partition(":")[0]


def is_offline(name: str) -> bool:
    """Return whether the name means the built-in model that is no LLM."""
    return name == OFFLINE or name.startswith(f"{OFFLINE}:")


def is_configured(environ: Mapping[str, str], levels: Mapping[str, str]) -> bool:
    """Return whether at least one configured model has its key or endpoint in the environment.

    A provider not known here counts as configured: it may find its credentials where we do not
    look, and its own error is better than none.
    """
    return any(_has_key(environ, name) for name in levels.values())


def _has_key(environ: Mapping[str, str], name: str) -> bool:
    if is_offline(name):
        return True
    names = key_names(provider_of(name))
    return not names or any(environ.get(key, "").strip() for key in names)


def known_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of models the library knows, of providers with a key or endpoint set.

    None before the library is loaded: that takes seconds, and is not done for a list of names.
    """
    library = sys.modules.get("pydantic_ai.models")
    alias = getattr(library, "KnownModelName", None)
    names = get_args(getattr(alias, "__value__", alias))
    return tuple(
        name
        for name in names
        if key_names(provider_of(name)) and _has_key(environ, name) and not is_offline(name)
    )


def require_key(name: str, environ: Mapping[str, str]) -> None:
    """Return if the model's key or endpoint is set.

    Raises:
        UserMistake: it is not; the hint names what to set.
    """
    if not _has_key(environ, name):
        names = " or ".join(key_names(provider_of(name)))
        raise UserMistake(
            f"The model {name} cannot be asked: {names} is not set.",
            hint="Set it, or use --model offline, which is no LLM.",
        )


def no_model(levels: Mapping[str, str]) -> str:
    """Return the line that says why the offline model answers, and what would change it."""
    wanted = sorted({key for name in levels.values() for key in key_names(provider_of(name))})
    models = ", ".join(sorted(set(levels.values())))
    return (
        f"No model is configured (there is no key or endpoint for {models}): the built-in offline "
        f"model answers, which is no LLM. Set {' or '.join(wanted)}."
    )


def named(level: str, levels: Mapping[str, str]) -> str:
    """Return the model a level means.

    Raises:
        UserMistake: no model is set for the level.
    """
    if level in levels:
        return levels[level]
    raise UserMistake(
        f"There is no model for the level {level!r}.", hint=did_you_mean(level, levels)
    )


def checked_among(name: str, models: Collection[str]) -> str:
    """Return the name if it has the form `provider:model`.

    Raises:
        UserMistake: it has not; where one of `models` is called that without its provider, it says so.
    """
    try:
        return checked(name)
    except UserMistake as error:
        meant = [model for model in models if model.partition(":")[2] == name]
        if ":" in name or not meant:
            raise
        raise UserMistake(error.what, hint=f"Did you mean {' or '.join(meant[:3])}?") from None


def checked(name: str, known: Collection[str] = tuple(KEYS)) -> str:
    """Return the name if it has the form `provider:model`.

    Raises:
        UserMistake: it has not.
    """
    provider, colon, model = name.partition(":")
    if is_offline(name) or (provider.strip() and colon and model.strip()):
        return name
    example = f"{did_you_mean(provider, known)} " if colon and provider not in known else ""
    raise UserMistake(
        f"{name!r} is not the name of a model.",
        hint=f"{example}Write provider:model, such as openai:gpt-5.",
    )
