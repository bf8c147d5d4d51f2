"""A person's words on their way into a run: made readable, and read as an answer."""

import msgspec

from midstream.language.errors import UserMistake
from midstream.language.forms import example, fields, read_form
from midstream.language.names import Json
from midstream.language.plan import input_schema
from midstream.language.spec import Workflow
from midstream.runtime.ports import Validator
from midstream.system.offloop import in_thread

MAX_JSON = 1_000_000
"""Characters of a line that is read as JSON; a longer one is text."""

MAX_DEPTH = 64


def readable(text: str) -> str:
    """Return words as Unicode that can be kept and sent: no lone surrogates, no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


async def checked(text: str, schema: dict[str, Json], validate: Validator) -> tuple[Json, str]:
    """Return the value a line gives for its question's schema, and why it does not fit.

    A line is read as JSON if it can be, so that `5` is a number; where that does not fit, the words
    themselves may. Checked off the loop: a schema is foreign, and may be slow to check.
    """
    value = value_of(text, schema)

    def check() -> tuple[Json, str]:
        problem = validate(value, schema)
        if problem and not validate(text, schema):
            return text, ""
        if problem and value == text and (line := example(fields(schema))):
            problem = f"it has none of the fields asked for: write {line}, or JSON"
        return value, problem

    return await in_thread(check)


async def fitting_input(workflow: Workflow, given: Json, validate: Validator) -> Json:
    """Return what a workflow is started with, text read as the JSON type its `input` names.

    Raises:
        UserMistake: it does not fit that type.
    """
    schema = input_schema(workflow.input)
    if given is None or schema is None:
        return given
    if isinstance(given, str):
        value, problem = await checked(given, schema, validate)
    else:
        value, problem = given, await in_thread(lambda: validate(given, schema))
    if problem:
        raise UserMistake(
            f"{workflow.workflow_name} cannot be started with that: {problem}.",
            hint=f"Its input is of type {schema['type']}.",
        )
    return value


def value_of(text: str, schema: dict[str, Json]) -> Json:
    """Return the JSON value a person means by a line: the text itself where a string is wanted.

    A line that is no JSON may fill in a form: `kind=bug severity=low`.
    """
    if schema.get("type") == "string":
        return text
    if len(text) > MAX_JSON:
        return text
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, ValueError, RecursionError):
        form = read_form(text, schema)
        return text if form is None or _is_deep(form) else form
    return text if _is_deep(value) else value


def _is_deep(value: Json, depth: int = 0) -> bool:
    """Return whether lists and objects stand deeper in each other than anyone means them to."""
    if depth > MAX_DEPTH:
        return True
    if isinstance(value, dict):
        return any(_is_deep(item, depth + 1) for item in value.values())
    return isinstance(value, list) and any(_is_deep(item, depth + 1) for item in value)
