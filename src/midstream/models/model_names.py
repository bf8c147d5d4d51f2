"""Models by name: what `openai:gpt-5` needs, and what it is called where a level is meant."""

from collections.abc import Collection, Mapping
from typing import Final

from midstream.language.errors import UserMistake, did_you_mean
from midstream.models.endpoints import ENDPOINTS, address_variable

OFFLINE: Final = "offline"

KEYS: Final[dict[str, tuple[str, ...]]] = {
    **{
        name: ()
        if known.is_keyless
        else ((*known.keys, address_variable(name)) if known.is_own else known.keys)
        for name, known in ENDPOINTS.items()
    },
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
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
    return any(has_key(environ, name) for name in levels.values())


def has_key(environ: Mapping[str, str], name: str) -> bool:
    """Return whether the key or endpoint of a model's provider is set, or none is needed."""
    if is_offline(name):
        return True
    names = key_names(provider_of(name))
    return not names or any(environ.get(key, "").strip() for key in names)


def require_key(name: str, environ: Mapping[str, str]) -> None:
    """Return if the model's key or endpoint is set.

    Raises:
        UserMistake: it is not; the hint names what to set.
    """
    if not has_key(environ, name):
        names = " or ".join(key_names(provider_of(name)))
        raise UserMistake(
            f"The model {name} cannot be used: {names} is not set.",
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
