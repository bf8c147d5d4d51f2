"""Where each provider is asked, with which key, and in which dialect: a table; and models by name.

Most providers speak OpenAI's chat completions; Anthropic speaks its own protocol. These two are spoken
here, and a provider is a row. Whatever else there is goes through `pydantic_ai`.

An address can be replaced by the environment: `GROQ_BASE_URL` for `groq`, and so on.
"""

from collections.abc import Collection, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from midstream.language.errors import UserMistake, did_you_mean, nearest
from midstream.language.names import EFFORTS, Effort

NO_KEY: Final = "not-set"
"""Sent where an own endpoint is set and no key: most local servers want any, and check none."""

OLLAMA_ADDRESS: Final = "OLLAMA_BASE_URL"
OLLAMA_HERE: Final = "http://127.0.0.1:11434/v1"

Dialect = Literal["openai", "anthropic", "library"]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A provider, and what is special about it.

    `base` is "" where only the environment says where it is. `path` follows the base. `is_keyless`: a
    key may be set and need not be. `is_own`: people have endpoints of their own that speak like it, so
    that its address is as good as a key.

    `tells_usage`: tells what was used without being asked, and refuses to be asked. `must_call` is its
    word for "call one of the tools"; `has_short_ids`: ids of calls are nine letters and digits.
    `takes_effort`: can be told how hard to think, in the words of its dialect.
    """

    title: str
    base: str
    keys: tuple[str, ...]
    dialect: Dialect = "openai"
    path: str = "/chat/completions"
    is_keyless: bool = False
    is_own: bool = False
    tells_usage: bool = False
    must_call: str = "required"
    has_short_ids: bool = False
    takes_effort: bool = True


def _at(title: str, base: str, *keys: str, takes_effort: bool = True) -> Endpoint:
    return Endpoint(title=title, base=base, keys=keys, takes_effort=takes_effort)


_OPENAI = Endpoint(
    title="OpenAI", base="https://api.openai.com/v1", keys=("OPENAI_API_KEY",), is_own=True
)

ENDPOINTS: Final[dict[str, Endpoint]] = {
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": msgspec.structs.replace(_OPENAI, dialect="library"),
    "anthropic": Endpoint(
        title="Anthropic",
        base="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY",),
        dialect="anthropic",
        path="/v1/messages",
        is_own=True,
    ),
    "google": Endpoint(
        title="Google",
        base="https://generativelanguage.googleapis.com",
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        dialect="library",
        is_own=True,
    ),
    "openrouter": _at("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "deepseek": _at("DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "groq": Endpoint(
        title="Groq",
        base="https://api.groq.com",
        keys=("GROQ_API_KEY",),
        path="/openai/v1/chat/completions",
    ),
    "mistral": Endpoint(
        title="Mistral",
        base="https://api.mistral.ai",
        keys=("MISTRAL_API_KEY",),
        path="/v1/chat/completions",
        tells_usage=True,
        must_call="any",
        has_short_ids=True,
    ),
    "ollama": Endpoint(title="Ollama", base=OLLAMA_HERE, keys=("OLLAMA_API_KEY",), is_keyless=True),
    "xai": _at("xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    "alibaba": _at(
        "Alibaba Cloud",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        *("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
        takes_effort=False,
    ),
    "cerebras": _at("Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "fireworks": _at("Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "github": _at("GitHub Models", "https://models.github.ai/inference", "GITHUB_API_KEY"),
    "moonshotai": _at(
        "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY", takes_effort=False
    ),
    "nebius": _at("Nebius", "https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    "ovhcloud": _at(
        "OVHcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "OVHCLOUD_API_KEY"
    ),
    "sambanova": _at("SambaNova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "together": _at("Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "vercel": _at(
        "Vercel",
        "https://ai-gateway.vercel.sh/v1",
        *("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    ),
    "vllm": Endpoint(title="vLLM", base="", keys=("VLLM_API_KEY",), is_own=True),
    "zai": _at("Z.ai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", takes_effort=False),
}


def address_variable(provider: str) -> str:
    """Return the environment variable that says where a provider is, if not where it always is."""
    if provider.startswith("openai"):
        return "OPENAI_BASE_URL"
    if provider == "google":
        return "GOOGLE_GEMINI_BASE_URL"
    return f"{provider.upper()}_BASE_URL"


def base_of(provider: str, environ: Mapping[str, str]) -> str:
    """Return the address a provider is asked at, without the path; "" where only its library knows it.

    Raises:
        UserMistake: the environment names one that is none.
    """
    known = ENDPOINTS.get(provider)
    if known is None:
        return ""
    variable = address_variable(provider)
    address = environ.get(variable, "").strip()
    if address:
        _check_address(variable, address)
    return address or known.base


def address_and_key(provider: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the address and the key of a provider of the table, both whole.

    Raises:
        UserMistake: there is neither key nor address, or one of them is malformed.
    """
    known, variable = ENDPOINTS[provider], address_variable(provider)
    own = environ.get(variable, "").strip()
    keys = {name: environ.get(name, "").strip() for name in known.keys}
    name, key = next(((n, key) for n, key in keys.items() if key), ("", ""))
    if not own and not (key and known.base) and not known.is_keyless:
        words = f"No key for {known.title} is set."
        if not known.base:
            words = f"Where {known.title} runs is not set."
        ways = " or ".join(known.keys) if known.base else ""
        hint = f"{ways}, or {variable} for an endpoint of your own" if ways else variable
        raise UserMistake(words, hint=f"Set {hint}.")
    address = base_of(provider, environ)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserMistake(
            f"{name} contains characters that a key cannot have.",
            hint="Copy the key again, without quotes or line breaks.",
        )
    return address, key or NO_KEY


def _check_address(variable: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise UserMistake(
            f"{variable} is {address!r:.100}, which is not an endpoint's address.",
            hint="Write the full address, such as http://127.0.0.1:11434/v1.",
        )


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
    return name.partition(":")[0].split(" ")[0] == OFFLINE


def name_and_effort(text: str) -> tuple[str, Effort | None]:
    """Return the model and the effort, None for none, that a text such as `openai:gpt-5 high` names."""
    name, _, word = text.rpartition(" ")
    effort = next((each for each in EFFORTS if each == word), None)
    return (text, None) if effort is None else (name.strip(), effort)


def with_effort(text: str, effort: Effort) -> str:
    """Return the text that names the same model with this effort."""
    return f"{name_and_effort(text)[0]} {effort}"


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
            hint="Set it, or use the model offline, which is no LLM: --model offline, or in a program "
            'model="offline".',
        )


def no_model(levels: Mapping[str, str]) -> str:
    """Return the line that says why the offline model answers, and what would change it."""
    wanted = sorted({key for name in levels.values() for key in key_names(provider_of(name))})
    models = ", ".join(sorted(set(levels.values())))
    return (
        f"No model is configured (there is no key or endpoint for {models}): the built-in offline "
        f"model answers, which is no LLM. Set {' or '.join(wanted)}."
    )


def model_of_level(level: str, levels: Mapping[str, str]) -> str:
    """Return the model a level means.

    Raises:
        UserMistake: no model is set for the level.
    """
    if level in levels:
        return levels[level]
    raise UserMistake(
        f"There is no model for the level {level!r}.", hint=did_you_mean(level, levels)
    )


def require_name_among(name: str, models: Collection[str]) -> str:
    """Return the name if it has the form `provider:model`.

    Raises:
        UserMistake: it has not; where one of `models` is called that without its provider, it says so.
    """
    try:
        return require_name(name)
    except UserMistake as error:
        meant = [model for model in models if model.partition(":")[2] == name]
        if ":" in name or not meant:
            raise
        raise UserMistake(error.what, hint=f"Did you mean {' or '.join(meant[:3])}?") from None


def require_name(name: str) -> str:
    """Return the name if it has the form `provider:model`; an effort may follow, see `name_and_effort`.

    Raises:
        UserMistake: it has not.
    """
    provider, colon, model = name_and_effort(name)[0].partition(":")
    if colon and " " in model.strip():
        word = model.split()[-1]
        raise UserMistake(
            f"{name!r} is not the name of a model: {word!r} is no effort.",
            hint=f"Write provider:model, and behind it {' or '.join(EFFORTS)}, or nothing.",
        )
    if is_offline(name) or (provider.strip() and colon and model.strip()):
        return name
    example = f"{did_you_mean(provider, KEYS)} " if colon and provider not in KEYS else ""
    if not colon and nearest(name, (OFFLINE,)):
        example = f"Did you mean {OFFLINE}? "
    raise UserMistake(
        f"{name!r} is not the name of a model.",
        hint=f"{example}Write provider:model, such as openai:gpt-5, or {OFFLINE}.",
    )
