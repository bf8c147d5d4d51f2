"""What workflow files read of a run: dotted paths such as `common_data.summary` or `last_response`."""

import msgspec

from midstream.core.run import Run
from midstream.language.data_paths import Missing, within
from midstream.language.names import Json


def look_up(run: Run, path: str) -> Json | Missing:
    """Return the value at a path that begins with common_data, variables, input, resume_input or
    last_response (a reply's text), visits or last (`last.text`, `last.value`), or `Missing()`.

    List items are named by their index.
    """
    first, *rest = path.split(".")
    last = run.visit.last_response
    roots: dict[str, Json] = {
        "common_data": run.common_data,
        "variables": run.variables,
        "input": run.input,
        "resume_input": run.halt.resume_input,
        "last_response": None if last is None else last.text,
        "last": last_of(run),
        "visits": run.visits,
    }
    if first not in roots:
        return Missing()
    if first == "visits" and len(rest) == 1:
        return run.visits.get(rest[0], 0)
    return within(roots[first], rest)


def as_text(value: Json) -> str:
    """Return a value as people and models read it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def last_of(run: Run) -> dict[str, Json]:
    """Return the last reply or result as expressions see it: its `text`, `value` and `arguments`."""
    last = run.visit.last_response
    if last is None:
        return {"text": "", "value": None, "arguments": {}}
    arguments = last.calls[0].arguments if last.calls else {}
    return {"text": last.text, "value": last.value, "arguments": arguments}
