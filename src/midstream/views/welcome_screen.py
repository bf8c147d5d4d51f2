"""The first screen: what this is, what was found, who answers, three things to try."""

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Final

import msgspec

from midstream.views.cells import shortened

_LONGEST: Final = 48
"""Characters of a model's name that are shown: a server may say anything."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A server on this machine that speaks OpenAI's protocol, and the models it says it has."""

    program: str
    port: int
    models: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Return where it is asked, as `OPENAI_BASE_URL` says it."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def talking(self) -> tuple[str, ...]:
        """Return the models of it one can talk to."""
        return tuple(name for name in self.models if "embed" not in name.lower())

    @property
    def chats_with(self) -> str:
        """Return a model of it one can talk to, "" where it names none."""
        return next(iter(self.talking), "")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of the environment that is set: its name, whose it is, never its value.

    `extra` is what has to be installed before that provider's models can be used, "" nothing.
    """

    name: str
    provider: str
    extra: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at the start. `model` is what answers now."""

    model: str
    is_offline: bool
    has_code: bool
    keys: tuple[Key, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


def welcome(found: Found, *, width: int) -> str:
    """Return the first screen: at most 20 lines at 78 columns, more where there is less room."""
    width = max(20, width)
    parts = [
        fill(_WHAT, width),
        "\n".join(["Found", *_rows(_found(found), width)]),
        fill(_answers(found), width),
        "\n".join(["Try", *_rows(_tries(found), width)]),
        fill(_AGAIN, width),
    ]
    return "\n\n".join(parts)


_WHAT: Final = (
    "midstream is a console for AI coding: you chat with one agent or start a workflow of several, "
    "and go on typing while they work."
)
_AGAIN: Final = "/welcome shows this again, /help lists the commands, /config the settings."


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield names with their words beside them where both fit a line, else below."""
    column = max(len(name) for name, _ in rows) + 4
    for name, words in rows:
        if column + len(words) <= width:
            yield f"  {name}".ljust(column) + words
        else:
            yield fill(name, width, initial_indent="  ", subsequent_indent="  ")
            yield fill(words, width, initial_indent="    ", subsequent_indent="    ")


def _found(found: Found) -> list[tuple[str, str]]:
    some = found.keys if len(found.keys) <= _MOST else found.keys[: _MOST - 1]
    rows = [(key.name, _way_to(key, found)) for key in some]
    if others := [key.name for key in found.keys[len(some) :]]:
        rows.append((f"and {len(others)} more", shortened(", ".join(others), _LONGEST)))
    if not rows:
        rows.append(("no key", "OPENAI_API_KEY and similar keys are not set"))
    rows += [(f"{each.program} :{each.port}", _offers(each)) for each in found.endpoints[:_MOST]]
    if not found.endpoints:
        rows.append(("no server", "no Ollama, LM Studio, vLLM, llama.cpp on this machine"))
    return rows


_MOST: Final = 2
"""Keys that have a row, and servers: the first of them are the likelier ones."""


def _way_to(key: Key, found: Found) -> str:
    if found.model.partition(":")[0] == key.provider:
        return "is set, and used"
    if key.extra:
        return f"is set; needs pip install 'midstream[{key.extra}]'"
    return f"is set: /model {key.provider}:NAME"


def _offers(each: Endpoint) -> str:
    more = len(each.models) - 1
    return (
        f"{way_to(each)} and {more} more" if more > 0 and each.program == OLLAMA else way_to(each)
    )


def way_to(each: Endpoint) -> str:
    """Return how a server's model is used: in the console, or from a shell."""
    if not each.chats_with:
        return "answers, but has no model to chat with yet"
    if each.program == OLLAMA:
        return f"/model ollama:{shortened(each.chats_with, _LONGEST)}"
    return f"OPENAI_BASE_URL={each.address} midstream --model openai:{shortened(each.chats_with, _LONGEST)}"


OLLAMA: Final = "Ollama"


def _answers(found: Found) -> str:
    if not found.is_offline:
        return f"{shortened(found.model, _LONGEST)} answers."
    return (
        "Until you choose a model the built-in offline model answers. It is no LLM and cannot "
        "chat, but it plays its part in a workflow: you can try everything else."
    )


def _tries(found: Found) -> list[tuple[str, str]]:
    review = (f"/workflow {_REVIEW}", "type while its three reviewers run")
    own = ("!ls", "a command in your own shell")
    keys = ("?", "on an empty line: the keys")
    if not found.is_offline:
        if found.has_code:
            return [(CODER, "works on this code; ask: What is this project?"), review, keys]
        return [("Write a small Python program.", "Esc stops the answer"), own, keys]
    local = [each for each in found.endpoints if each.program == OLLAMA and each.chats_with]
    return [
        *(
            (f"/model ollama:{shortened(each.chats_with, _LONGEST)}", "then say hello")
            for each in local
        ),
        review if found.has_code else ("/workflows", "what several agents do together"),
        *(() if local else (own,)),
        keys,
    ]


CODER: Final = "/role coder"
"""How a person gets the role that works on code."""

_REVIEW: Final = "code_architecture_review"
