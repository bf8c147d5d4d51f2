"""What can go wrong between us and a provider, as errors a person can act on.

Providers' words are foreign: they are shortened to a line, and our keys are taken out of them
(some servers echo the key they refuse).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from midstream.ai.naming import key_names, provider_of
from midstream.core.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.core.names import Json

SHOWN_CHARS: Final = 300
REDACTED: Final = "[redacted]"

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{12,}")
_BEARER = re.compile(r"(?i)\bbearer\s+\S+")

OLLAMA: Final = "ollama"
_NO_OLLAMA: Final = (
    "Is it running? `ollama serve` starts it; OLLAMA_BASE_URL says where it is if not here."
)

_EXTRAS = {
    "anthropic": "anthropic",
    "google": "google",
    "google-gla": "google",
    "google-cloud": "google",
}
"""Which extra of ours brings which provider."""


class ReplyTooLarge(Exception):
    """A provider sent more than a reply may have: the message says more than what."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt. `error` is what to raise if it is the last; `brief` names the cause.

    `is_passing`: it may work by itself, later; the provider may have said when.
    """

    error: MidstreamError
    brief: str
    is_passing: bool = False
    retry_after_s: float | None = None


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment's keys and tokens, the longest first."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name)}
    return tuple(sorted((value for value in found if len(value) >= 6), key=len, reverse=True))


def shown(text: str, secrets: Iterable[str]) -> str:
    """Return a provider's words on one line, shortened, without our secrets."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _BEARER.sub(REDACTED, _SECRET_LOOK.sub(REDACTED, text))
    text = "".join(
        sign if sign.isprintable() else _spelled(sign) for sign in " ".join(text.split())
    )
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _spelled(sign: str) -> str:
    """Return a sign that draws nothing, or something else, as one that can be seen."""
    return sign.encode("unicode_escape").decode() if sign.isascii() else f"\\u{ord(sign):04x}"


def key_hint(name: str) -> str:
    """Return where a model's key is set."""
    names = " or ".join(key_names(provider_of(name)))
    return f"Check {names}." if names else "Check the provider's key."


def missing_extra(name: str, error: ImportError) -> UserMistake:
    """Return the error for a provider whose library is not installed."""
    provider = provider_of(name)
    extra = _EXTRAS.get(provider)
    install = (
        f"pip install 'midstream[{extra}]'"
        if extra
        else f"pip install 'pydantic-ai-slim[{provider}]'"
    )
    return UserMistake(
        f"The model {name} needs a library that is not installed ({error.name or 'unknown'}).",
        hint=f"Run: {install}",
    )


def trouble_of(error: Exception, *, name: str, secrets: tuple[str, ...]) -> Trouble:
    """Return what an exception of a provider's library means for us.

    Args:
        error: what the attempt raised.
        name: the model's name as configured.
        secrets: what must not be shown.
    """
    from pydantic_ai import exceptions as theirs

    words = shown(_words_of(error), secrets)
    retry_after_s = getattr(error, "retry_after", None)
    if isinstance(error, ReplyTooLarge):
        return _world(
            f"{name} sent {error}, more than a reply may have.",
            "Ask for less at a time.",
            brief="too large",
        )
    if isinstance(error, ImportError):
        return Trouble(error=missing_extra(name, error), brief="not installed")
    if isinstance(error, theirs.UserError):
        return _user(f"The model {name} cannot be used: {words}", key_hint(name), brief="setup")
    if isinstance(error, theirs.ModelAuthenticationError):
        return _user(f"{name}: the provider refused the key: {words}", key_hint(name), brief="key")
    if isinstance(error, theirs.ModelNotFoundError):
        hint = "Check the model's name, and that the endpoint's address (such as OPENAI_BASE_URL) is right."
        if provider_of(name) == OLLAMA:
            hint = f"ollama pull {name.partition(':')[2]} fetches it, /welcome says what is there."
        if suggested := getattr(error, "suggested_model_id", None):
            hint = f"Did you mean {suggested}?"
        return _user(f"{name} was not found: {words}", hint, brief="not found")
    if isinstance(error, theirs.ModelContextWindowExceededError):
        return _user(
            f"The conversation is longer than {name} can read: {words}",
            "Shorten it with /compact, begin anew with /clear, give the context a smaller max_length, or "
            "use a larger model.",
            brief="too long",
        )
    if isinstance(error, theirs.ModelQuotaExceededError):
        return _world(
            f"{name}: the account's quota or credit is used up: {words}",
            "Look at the provider's billing page, or choose another model.",
            brief="quota",
        )
    if isinstance(error, theirs.ModelRateLimitError):
        return _passing(
            f"{name} takes no more requests for now: {words}",
            "Wait a little, or choose another model.",
            brief="rate limited",
            retry_after_s=retry_after_s,
        )
    if isinstance(error, theirs.ModelUnavailableError | theirs.ModelServerError):
        return _passing(
            f"{name}: the provider has trouble: {words}",
            "Try again later, or choose another model.",
            brief="server trouble",
            retry_after_s=retry_after_s,
        )
    if isinstance(error, theirs.ModelConnectionError) or _is_transport(error):
        return _passing(
            f"{name}: the connection failed: {words}",
            _NO_OLLAMA
            if provider_of(name) == OLLAMA
            else "Check the network, and the endpoint's address (such as OPENAI_BASE_URL).",
            brief="no connection",
        )
    if isinstance(error, theirs.ModelRequestRejectedError):
        return _user(
            f"{name} refused the request: {words}",
            "Choose another model, or change what was sent.",
            brief="refused",
        )
    if (target := _redirect_of(error)) is not None:
        return _user(
            f"{name}: the endpoint answered with a redirect to {shown(target, secrets)}; "
            "redirects are not followed.",
            "Set the endpoint's final address (such as OPENAI_BASE_URL).",
            brief="redirect",
        )
    if "ended without a `finish_reason`" in str(error):
        return truncated(name)
    if isinstance(error, theirs.ModelAPIError) and error.in_stream:
        return _world(
            f"{name}: the provider reported an error in place of a reply: {words}",
            "Try again later, or choose another model.",
            brief="provider error",
        )
    return _world(
        f"{name} sent what cannot be read: {words}",
        "Try again. If it stays so, check that the endpoint is a model API.",
        brief="unreadable",
    )


def truncated(name: str, why: str = "the stream ended before the reply did") -> Trouble:
    """Return the trouble of a reply that stopped before it was complete."""
    return _world(
        f"The reply of {name} was cut off: {why}.",
        "Say it again to go on from here.",
        brief="cut off",
    )


def too_late(name: str, what: str, seconds: float) -> Trouble:
    """Return the trouble of a passed deadline; `what` says what did not happen."""
    return _world(
        f"{name} {what} within {seconds:g} s.",
        "Try again later, choose another model, or give it longer: modelPatience in application.json.",
        brief="too late",
    )


def _user(what: str, hint: str, *, brief: str) -> Trouble:
    return Trouble(error=UserMistake(what, hint=hint), brief=brief)


def _world(what: str, hint: str, *, brief: str) -> Trouble:
    return Trouble(error=WorldTrouble(what, hint=hint), brief=brief)


def _passing(what: str, hint: str, *, brief: str, retry_after_s: float | None = None) -> Trouble:
    return Trouble(
        error=WorldTrouble(what, hint=hint),
        brief=brief,
        is_passing=True,
        retry_after_s=retry_after_s,
    )


def _words_of(error: Exception) -> str:
    """Return what the provider said, without the library's own frame around it."""
    body: Json = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error")
        body = (inner if isinstance(inner, Mapping) else body).get("message", inner)
    status = getattr(error, "status_code", None)
    words = body if isinstance(body, str) and body else _plain(error)
    return f"{words} ({status})" if status else words


def _plain(error: Exception) -> str:
    """Return an error's words and those of its first cause: "Connection error." says not which."""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    words = [str(error) or type(error).__name__, str(first) or type(first).__name__]
    return words[0] if words[1] in words[0] else " ".join(words)


def _is_transport(error: Exception) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError | httpx2.StreamError | ConnectionError)


def _redirect_of(error: Exception) -> str | None:
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", 0)
    if not 300 <= status < 400:
        return None
    assert response is not None
    return str(response.headers.get("location") or "nowhere")
