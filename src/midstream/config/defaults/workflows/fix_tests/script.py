"""Handlers of fix_tests: what came of it is said by the tests, not by an agent."""


def keep_change(run):
    """Keep what the coder says it changed, and let the finder hear it."""
    said = run.last_response.text
    run.common_data["changes"] = [*run.common_data.get("changes", []), said]
    run.contexts["work"].add_message("assistant", said)


def write_result(run):
    """Say how the tests ended the last time, and what the coder says it changed."""
    data = run.common_data
    changes = data.get("changes", [])
    count = f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
    if isinstance(data["tests"], str):
        verdict = f"`{run.input}` passes" + (" now." if changes else ": there is nothing to mend.")
    else:
        how = f"still fails after {count}" if changes else "fails, and was left so"
        verdict = f"`{run.input}` {how}.\n\n{data['plan']['cause']}\n\n{data['plan']['change']}"
    data["result"] = "\n\n".join([verdict, *changes])
