"""What can go wrong between us and a provider, as errors a person can act on.

Providers' words are foreign: they are shortened to a line, and our keys are taken out of them
(some servers echo the key they refuse).
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.models.endpoints import ENDPOINTS, address_variable, key_names, provider_of
from midstream.system.own_process import own_redactor

SHOWN_CHARS: Final = 300
REDACTED: Final = "[redacted]"

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{12,}")
_BEARER = re.compile(r"(?i)\bbearer\s+\S+")

OLLAMA: Final = "ollama"
WITHOUT_END: Final = "the stream ended before the reply did"
PACKED: Final = "the answer is compressed, which was not asked for"

_AN_ADDRESS: Final = "such as OPENAI_BASE_URL"

_EXTRAS: Final = {"google": "google", "google-gla": "google", "google-cloud": "google"}
"""Which extra of ours brings which provider; the others are in `_OTHERS`."""
_OTHERS: Final = "providers"


Kind: TypeAlias = Literal[
    "setup",
    "key",
    "model",
    "length",
    "quota",
    "rate",
    "server",
    "connection",
    "request",
    "effort",
    "redirect",
    "stream",
    "unreadable",
    "large",
    "cut",
    "late",
]
"""What an error is about; `stream`: it came in a stream, and says no more; `cut`: the stream ended before
the reply did.
"""


class Failed(Exception):
    """A request failed: `kind` says in which way, the words how."""

    def __init__(self, kind: Kind, words: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(words)
        self.kind: Kind = kind
        self.retry_after_s = retry_after_s


class Refused(Exception):
    """A provider answered with an error: in place of a stream (`status`), or in the middle of one (0).

    `body` is what it said, as JSON if it was that.
    """

    def __init__(
        self, status: int, body: Json, *, headers: Mapping[str, str] | None = None
    ) -> None:
        error = body.get("error", body) if isinstance(body, dict) else body
        fields = error if isinstance(error, dict) else {}
        self.status = status
        self.code = _text(fields.get("code"))
        self.kind = _text(fields.get("type"))
        self.words = next(
            (
                words
                for words in (fields.get("message"), fields.get("detail"), error)
                if isinstance(words, str) and words.strip()
            ),
            "" if not fields else msgspec.json.encode(fields).decode(),
        )
        self.retry_after_s = None if headers is None else _retry_after_s(headers)
        super().__init__(self.words or "no words")


def _text(value: Json) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long a provider asks to wait, None where it does not, or in no way that can be read."""
    from email.utils import parsedate_to_datetime

    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        told = headers.get(name, "")
        try:
            wait_s = float(told) / unit
        except ValueError:
            try:
                wait_s = (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds()
            except (ValueError, TypeError):
                continue
        if 0 <= wait_s < float("inf"):
            return wait_s
    return None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt. `error` is what to raise if it is the last; `brief` names the cause.

    `is_passing`: it may work by itself, later; the provider may have said when.
    """

    error: MidstreamError
    brief: str
    is_passing: bool = False
    retry_after_s: float | None = None


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """When to try again, and after how long, in seconds. `attempts` counts the first one.

    Only failures that may pass by themselves are tried again (too many requests, a server in trouble,
    no connection), and only while nothing of the reply has been heard: nothing is ever said twice.

    A provider that asks for more than `longest_s` of patience is told no: the request fails at once
    and says how long the wait would have been.
    """

    attempts: int = 5
    first_s: float = 0.5
    factor: float = 2.0
    ceiling_s: float = 20.0
    longest_s: float = 60.0

    def wait_s(self, attempt: int, *, retry_after_s: float | None, chance: float) -> float | None:
        """Return how long to wait after the failed `attempt` (from 1), None to give up.

        `chance` (0 to 1) spreads many waiting clients over half of the wait, so that they do not all
        come back in one moment. What the provider asks for is a lower bound, spread upwards.
        """
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None and retry_after_s > self.longest_s:
            return None
        wait = min(self.ceiling_s, self.first_s * self.factor ** (attempt - 1))
        if retry_after_s is not None and retry_after_s > 0:
            return retry_after_s + wait * chance / 2
        return wait * (0.5 + chance / 2)


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment's keys and tokens, the longest first."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name)}
    return tuple(sorted((value for value in found if len(value) >= 6), key=len, reverse=True))


def shown(text: str, secrets: Iterable[str]) -> str:
    """Return a provider's words on one line, shortened, without our secrets."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _BEARER.sub(REDACTED, _SECRET_LOOK.sub(REDACTED, text))
    text = own_redactor().redacted(text)
    text = "".join(
        sign if sign.isprintable() else _spelled(sign) for sign in " ".join(text.split())
    )
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _spelled(sign: str) -> str:
    """Return a sign that draws nothing, or something else, as one that can be seen."""
    return sign.encode("unicode_escape").decode() if sign.isascii() else f"\\u{ord(sign):04x}"


def _missing_extra(name: str, error: ImportError) -> UserMistake:
    """Return the error for a provider whose library is not installed."""
    provider = provider_of(name)
    install = f"'midstream[{_EXTRAS.get(provider, _OTHERS)}]'"
    # pydantic-ai tells of a provider's library in words of its own; what was missing is behind them.
    missing = error.name or getattr(error.__cause__, "name", None) or "unknown"
    package = missing.partition(".")[0]
    if package not in ("pydantic_ai", "openai", "unknown") and provider not in _EXTRAS:
        install = f"'pydantic-ai-slim[{provider}]'"
    return UserMistake(
        f"The model {name} needs a library that is not installed ({missing}).",
        hint=f"Run: pip install {install}",
    )


def trouble_of(
    error: Exception, *, name: str, secrets: tuple[str, ...], meant: str = ""
) -> Trouble:
    """Return what an exception of an attempt means for us.

    Args:
        error: what the attempt raised.
        name: the model's name as configured.
        secrets: what must not be shown.
        meant: the name of a model the provider has, where it has not this one.
    """
    words = shown(_words_of(error), secrets)
    match error:
        case Refused():
            return trouble_about(
                kind_of(error), name, words, retry_after_s=error.retry_after_s, meant=meant
            )
        case Failed(kind=kind, retry_after_s=retry_after_s):
            return trouble_about(kind, name, words, retry_after_s=retry_after_s, meant=meant)
        case ImportError():
            return Trouble(error=_missing_extra(name, error), brief="not installed")
        case _ if _is_transport(error):
            return trouble_about("connection", name, words)
    return trouble_about("unreadable", name, words)


class _Report(msgspec.Struct, frozen=True):
    """What a kind of error is told as: fit for `str.format` with `name`, `words`, `keys`, `address`."""

    sort: type[MidstreamError]
    what: str
    hint: str
    brief: str
    is_passing: bool = False


_REPORTS: Final[dict[Kind, _Report]] = {
    "setup": _Report(
        UserMistake, "The model {name} cannot be used: {words}", "Check {keys}.", "setup"
    ),
    "key": _Report(
        UserMistake, "{name}: the provider refused the key: {words}", "Check {keys}.", "key"
    ),
    "model": _Report(
        UserMistake,
        "{name} was not found: {words}",
        "Check the model's name, and that the endpoint's address ({address}) is right.",
        "not found",
    ),
    "length": _Report(
        UserMistake,
        "The conversation is longer than {name} can read: {words}",
        "Shorten it with /compact, start over with /clear, give the context a smaller "
        "max_length, or use a larger model.",
        "too long",
    ),
    "quota": _Report(
        WorldTrouble,
        "{name}: the account's quota or credit is used up: {words}",
        "Look at the provider's billing page, or choose another model.",
        "quota",
    ),
    "rate": _Report(
        WorldTrouble,
        "{name} accepts no more requests for now: {words}",
        "Wait a little, or choose another model.",
        "rate limited",
        is_passing=True,
    ),
    "server": _Report(
        WorldTrouble,
        "{name}: the provider has trouble: {words}",
        "Try again later, or choose another model.",
        "server trouble",
        is_passing=True,
    ),
    "connection": _Report(
        WorldTrouble,
        "{name}: the connection failed: {words}",
        "Check the network, and the endpoint's address ({address}).",
        "no connection",
        is_passing=True,
    ),
    "request": _Report(
        UserMistake,
        "{name} refused the request: {words}",
        "Choose another model, or change what was sent.",
        "refused",
    ),
    "effort": _Report(
        UserMistake,
        "{name} refused the effort it was asked for: {words}",
        "Leave it out (/model NAME without one, or `effort` of the role), or choose another{elsewhere}.",
        "refused",
    ),
    "redirect": _Report(
        UserMistake,
        "{name}: the endpoint answered with a redirect to {words}; redirects are not followed.",
        "Set the endpoint's final address ({address}).",
        "redirect",
    ),
    "stream": _Report(
        WorldTrouble,
        "{name}: the provider reported an error in place of a reply: {words}",
        "Try again later, or choose another model.",
        "provider error",
    ),
    "unreadable": _Report(
        WorldTrouble,
        "{name} sent a reply that cannot be read: {words}",
        "Try again. If that does not help, check that the endpoint is a model API.",
        "unreadable",
    ),
    "large": _Report(
        WorldTrouble,
        "{name} sent {words}, which is over the limit for a reply.",
        "Ask for a shorter reply.",
        "too large",
    ),
    "cut": _Report(
        WorldTrouble,
        "The reply of {name} was cut off: {words}.",
        "Say it again to go on from here.",
        "cut off",
    ),
    "late": _Report(
        WorldTrouble,
        "{name} {words}.",
        "Try again later, choose another model, or give it longer: "
        "modelPatience in application.json.",
        "too late",
    ),
}
_OLLAMA_HINTS: Final[dict[Kind, str]] = {
    "model": "ollama pull {model} downloads it; /welcome lists what you have.",
    "connection": (
        "Is it running? `ollama serve` starts it; set OLLAMA_BASE_URL if it runs elsewhere."
    ),
}


def trouble_about(
    kind: Kind, name: str, words: str, *, retry_after_s: float | None = None, meant: str = ""
) -> Trouble:
    """Return the trouble of an error of a kind; `words` are fit to be shown.

    `meant` is the name of a model the provider has, where it has not this one.
    """
    report, (provider, _, model) = _REPORTS[kind], name.partition(":")
    hint = _OLLAMA_HINTS.get(kind, report.hint) if provider == OLLAMA else report.hint
    if kind == "model" and meant:
        hint = "Did you mean {meant}?"
    told = {
        "name": name,
        "words": words,
        "model": model,
        "meant": meant,
        "keys": " or ".join(key_names(provider)) or "the provider's key",
        # Some models of OpenAI take it with tools by their other protocol alone.
        "elsewhere": f", such as openai-responses:{model}" if provider == "openai" else "",
        # Of a provider that is not in the table an example has to do.
        "address": address_variable(provider) if provider in ENDPOINTS else _AN_ADDRESS,
    }
    return Trouble(
        error=report.sort(report.what.format(**told), hint=hint.format(**told)),
        brief=report.brief,
        is_passing=report.is_passing,
        retry_after_s=retry_after_s,
    )


_BY_NAME: Final[dict[str, Kind]] = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "billing_hard_limit_reached",
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
            "exceeded_current_quota_error",
            "billing_error",
        ),
        "quota",
    ),
    "context_length_exceeded": "length",
    "model_not_found": "model",
    "invalid_api_key": "key",
    "overloaded": "server",
    "overloaded_error": "server",
    "server_is_overloaded": "server",
}
"""What providers call errors, in `code` or `type`, whose status says less."""
_WITHOUT_STATUS: Final[dict[str, Kind]] = {
    "invalid_request_error": "request",
    "authentication_error": "key",
    "permission_error": "key",
    "not_found_error": "model",
    "request_too_large": "length",
    "rate_limit_exceeded": "rate",
    "rate_limit_error": "rate",
    "too_many_requests": "rate",
    "service_unavailable": "server",
    "service_unavailable_error": "server",
    "server_error": "server",
    "api_error": "server",
    "timeout_error": "server",
}
"""What they call the others, which tell no status where they come in a stream."""
_TOO_LONG: Final = (
    *("maximum context length", "reduce the length of the messages", "prompt is too long"),
    "exceeds the available context size",
)
_EFFORT: Final = ("reasoning_effort", "reasoning effort", "output_config", "effort parameter")
_NO_CREDIT: Final = "credit balance is too low"


def kind_of(refused: Refused) -> Kind:
    """Return what an error is about: by its name, then by its words, then by its status."""
    words = refused.words.lower()
    if _NO_CREDIT in words:
        return "quota"
    if any(said in words for said in _TOO_LONG):
        return "length"
    for named in (refused.code, refused.kind):
        if named in _BY_NAME:
            return _BY_NAME[named]
    # Some gateways tell in a stream which status it would have been.
    status = refused.status or (int(refused.code) if refused.code.isdecimal() else 0)
    match status:
        case 401 | 403:
            return "key"
        case 402:
            return "quota"
        case 404:
            return "model"
        case 413:
            return "length"
        case 429:
            return "rate"
        case 408 | 409 | 425:
            return "server"
        case _ if status >= 500:
            return "server"
        case _ if status >= 400:
            return "effort" if any(said in words for said in _EFFORT) else "request"
    return next(
        (_WITHOUT_STATUS[n] for n in (refused.code, refused.kind) if n in _WITHOUT_STATUS), "stream"
    )


_PICTURES: Final = re.compile(
    r"image|vision|picture|multi-?modal|inline_?data|mmproj|should be 'text'"
    r"|content.{0,60}\b(a|valid|type|of) string|content.{0,40}expected string",
    re.IGNORECASE,
)


def is_about_pictures(trouble: Trouble) -> bool:
    """Return whether a provider refused a request that held pictures for these, by its words.

    Each says in another way that a model has no eyes, and some with the status of a server in trouble.
    """
    return trouble.brief in _REFUSALS and _PICTURES.search(trouble.error.what) is not None


_REFUSALS: Final = frozenset(
    _REPORTS[kind].brief for kind in ("request", "model", "server", "stream")
)


def _words_of(error: Exception) -> str:
    if isinstance(error, Refused):
        return f"{error} ({error.status})" if error.status else str(error)
    return plain_words(error)


def plain_words(error: Exception) -> str:
    """Return an error's words and those of its first cause: "Connection error." says not which."""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    words = [str(error) or type(error).__name__, str(first) or type(first).__name__]
    return words[0] if words[1] in words[0] else " ".join(words)


def _is_transport(error: Exception) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError | httpx2.StreamError | ConnectionError)
