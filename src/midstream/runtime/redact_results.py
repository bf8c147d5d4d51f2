"""Secrets taken out of what effects came to, before it becomes an input: shown, folded and journaled.

What people type is left as they typed it; it is theirs to tell. What models, tools and handlers say
goes through here, and nothing of it is kept otherwise. Two things need the exact values all the same:
a call has to be made with the arguments the model sent, and what a person granted has to fit that
call. They are in the vault, in memory alone; in the journal and on the screen stands what was taken out.
"""

from collections.abc import Sequence

import msgspec

from midstream.core.data_edits import Assign, Edit, Splice
from midstream.core.events import ContextChange
from midstream.core.inputs import RequestedCall
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.runtime.ports import HandlerResult, World
from midstream.safety.redaction import PIECE, Redactor, holds_placeholder
from midstream.system.offloop import in_thread

WITHHELD = (
    "Not made: its arguments hold a placeholder such as [redacted: password], which stands for a "
    "secret that is kept nowhere. Leave secrets out of the call: name the variable or the file that "
    "holds them, or change only what stands beside them."
)

_GRANTS = " grants"


async def without_secrets(text: str, redactor: Redactor) -> str:
    """Return a text with its secrets redacted; a long one off the loop."""
    if len(text) <= PIECE:
        return redactor.redacted(text)
    return await in_thread(lambda: redactor.redacted(text))


async def cleaned_json(value: Json, redactor: Redactor) -> Json:
    """Return a JSON value with its secrets redacted; a large one off the loop."""
    if len(msgspec.json.encode(value)) <= PIECE:
        return redactor.redacted_json(value)
    return await in_thread(lambda: redactor.redacted_json(value))


async def cleaned_call(call: RequestedCall, run: Run, world: World) -> RequestedCall:
    """Return a model's call as it may be journaled; what was taken out of it is in the vault."""
    arguments = await cleaned_json(call.arguments, world.redactor)
    if arguments != call.arguments:
        world.vault.keep(run.id, call.name, call.arguments, arguments)
    return RequestedCall(
        name=call.name, arguments=arguments, problem=world.redactor.redacted(call.problem)
    )


def exact_arguments(
    name: str, arguments: dict[str, Json], run: Run, world: World
) -> dict[str, Json] | None:
    """Return what a call is to be made with, None if that is not known any more."""
    if not holds_placeholder(arguments):
        return arguments
    exact: dict[str, Json] | None = world.vault.unredacted(run.id, name, arguments)
    return exact


def cleaned_grants(name: str, asks: Sequence[str], run: Run, world: World) -> tuple[str, ...]:
    """Return capabilities as they may be journaled; what was taken out of them is in the vault."""
    cleaned = tuple(map(world.redactor.redacted, asks))
    for exact, shown in zip(asks, cleaned, strict=True):
        if exact != shown:
            world.vault.keep(run.id, name + _GRANTS, exact, shown)
    return cleaned


def exact_grants(name: str, granted: Sequence[str], run: Run, world: World) -> tuple[str, ...]:
    """Return granted capabilities as the call asked for them. One that is not known grants nothing."""
    found: list[str] = []
    for grant in granted:
        if not holds_placeholder(grant):
            found.append(grant)
        elif isinstance(exact := world.vault.unredacted(run.id, name + _GRANTS, grant), str):
            found.append(exact)
    return tuple(found)


async def cleaned_result(
    result: HandlerResult, data: dict[str, Json], redactor: Redactor
) -> HandlerResult:
    """Return what a handler did to a run's `common_data` and the rest as it may be journaled."""
    return msgspec.structs.replace(
        result,
        changed=await cleaned_json(result.changed, redactor) if result.changed else {},
        edits=tuple([await _cleaned_edit(each, data, redactor) for each in result.edits]),
        variables=await cleaned_json(result.variables, redactor) if result.variables else {},
        contexts=tuple([await _cleaned_change(each, redactor) for each in result.contexts])
        if result.contexts
        else (),
    )


async def _cleaned_edit(edit: Edit, data: dict[str, Json], redactor: Redactor) -> Edit:
    """Return an edit as it may be journaled: a key and the text that goes on are looked at with it."""
    if isinstance(edit, Assign) and isinstance(edit.path[-1], str):
        [(key, value)] = (await cleaned_json({edit.path[-1]: edit.value}, redactor)).items()
        return Assign(path=(*edit.path[:-1], key), value=value)
    if isinstance(edit, Assign):
        return Assign(path=edit.path, value=await cleaned_json(edit.value, redactor))
    if isinstance(edit, Splice) and isinstance(edit.put, str):
        return await _cleaned_text(edit, edit.put, data, redactor)
    if isinstance(edit, Splice) and edit.put:
        return msgspec.structs.replace(edit, put=await cleaned_json(edit.put, redactor))
    return edit


async def _cleaned_text(edit: Splice, put: str, data: dict[str, Json], redactor: Redactor) -> Edit:
    """Return a text that goes on: a secret may have begun in what stood there before."""
    before: Json = data
    for step in edit.path:
        before = before[step]
    key, known = edit.path[-1], before[-PIECE:]
    value = {key: known + put} if isinstance(key, str) else known + put
    cleaned = await cleaned_json(value, redactor)
    text = cleaned[key] if isinstance(key, str) else cleaned
    if text.startswith(known):
        return msgspec.structs.replace(edit, put=text[len(known) :])
    return Splice(path=edit.path, at=edit.at - len(known), drop=len(known), put=text)


async def _cleaned_change(change: ContextChange, redactor: Redactor) -> ContextChange:
    text = await without_secrets(change.text, redactor)
    return change if text == change.text else msgspec.structs.replace(change, text=text)
