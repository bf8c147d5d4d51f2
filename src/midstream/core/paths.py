"""Dotted paths into a run's data, such as `common_data.summary` or `last_response`."""

from midstream.core.names import Json
from midstream.core.run import Run


class Missing:
    """What `look_up` returns for a path that leads nowhere."""


def look_up(run: Run, path: str) -> Json | Missing:
    """Return the value at a path that begins with common_data, variables, input, resume_input or
    last_response (a reply's text), or `Missing()`. List items are named by their index.
    """
    first, *rest = path.split(".")
    last = run.last_response
    roots: dict[str, Json] = {
        "common_data": run.common_data,
        "variables": run.variables,
        "input": run.input,
        "resume_input": run.resume_input,
        "last_response": None if last is None else last.text,
    }
    if first not in roots:
        return Missing()
    value = roots[first]
    for part in rest:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part in map(str, range(len(value))):
            value = value[int(part)]
        else:
            return Missing()
    return value
