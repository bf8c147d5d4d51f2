"""The reference of events as a page of markdown, made from the types themselves.

`make docs` writes it into docs/events.md, after a change of a type.
"""

import typing

import msgspec

from midstream.core import events, notices

_HEAD = """# Events

What a run says, as `machine.on(NAME, listener)`, `machine.events()` and `--json` give it. This page
is generated from the types (`make docs`).

With `--json` each event is one ASCII JSON object on a line of its own:

| field | of | meaning |
| --- | --- | --- |
| `type` | all | the event's name, as below |
| `run` | all | the run's id |
| `at` | all | seconds since 1970 (UTC) |
| `seq` | facts | the fact's position in its run, counted from 1 without gaps |
| `branch` | all | the branch it happened in, such as `tests` or `tests/inner`; none: the run itself |

and the event's own fields beside them. A field at its default is left out; `run_started` leaves out
the run's pinned definition. Words of the console itself are objects of type `console`, with `kind`
and `text`; they belong to no run.

A listener gets an `Envelope`: `.type`, `.run`, `.at`, `.seq` and the event itself as `.event`.
"""

_FACTS = """
## Facts

Journaled before anyone hears of them, in order, and all that is needed to know how a run stands.
"""

_NOTICES = """
## Transient events

Shown while something happens, never journaled, and free to be lost.
"""


def events_reference() -> str:
    """Return the page."""
    facts = "".join(map(_section, typing.get_args(events.AnyFact)))
    shown = "".join(map(_section, typing.get_args(notices.AnyNotice)))
    return f"{_HEAD}{_FACTS}{facts}{_NOTICES}{shown}"


_NOT_LISTED = ("definition", "branch")
"""Fields that stand in the journal alone, or in the page's head."""


def _section(event: type[msgspec.Struct]) -> str:
    hints = typing.get_type_hints(event)
    rows = [
        f"| `{field.encode_name}` | {_type_words(hints[field.name])} | {_default(field)} |"
        for field in msgspec.structs.fields(event)
        if field.name not in _NOT_LISTED
    ]
    words = " ".join((event.__doc__ or "").split())
    table = "\n".join(["", "| field | type | default |", "| --- | --- | --- |", *rows, ""])
    return f"\n### `{event.__struct_config__.tag}`\n\n{words}\n{table if rows else ''}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default).decode()}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    return "always given"


_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def _type_words(hint: object) -> str:
    """Return a type in the words of JSON."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return "any"
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_type_words(arguments[0])}"
    if origin is dict:
        return "object"
    if arguments:
        return " or ".join("null" if a is type(None) else _type_words(a) for a in arguments)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        inner = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(hint))
        return f"object ({inner})"
    return _NAMES.get(typing.cast(type, hint), str(hint))


if __name__ == "__main__":
    print(events_reference(), end="")
