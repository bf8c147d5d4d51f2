"""All benchmarks in turn, and one table: `python -m benchmarks [--quick] [--json] [NAME ...]`."""

import argparse
import os
import platform
import sys
import traceback
from importlib import import_module

from benchmarks.measuring import Figure, as_json, described, progress, table

NAMES = (
    "transitions",
    "durable_transitions",
    "durable_others",
    "side_by_side",
    "durable_runs",
    "resume_latency",
    "send_latency",
    "watching",
    "in_browser",
    "many_machines",
    "dispatch",
    "scale",
    "parked_memory",
    "long_runs",
    "many_runs",
    "first_prompt",
    "first_request",
    "long_request",
    "long_echo",
    "validate",
    "sanitizer",
    "sandbox",
    "policy",
    "idle_cpu",
    "echo_latency",
    "redraw",
    "prompts",
    "mentions",
    "halt_latency",
    "halt_in_terminal",
)


def main() -> None:
    """Measure what is named, or everything, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="only show that they work")
    parser.add_argument("--json", action="store_true", help="one JSON list on stdout")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    figures: list[Figure] = []
    failed: list[str] = []
    for name in chosen.names or NAMES:
        progress(f"... {name}")
        try:
            found: list[Figure] = import_module(f"benchmarks.{name}").measure(chosen.quick)
        except Exception:
            # What the others measured in some minutes is not lost over it.
            progress(traceback.format_exc())
            failed.append(name)
            continue
        figures += found
        if not chosen.json:
            for figure in found:
                print(described(figure), flush=True)
    if chosen.json:
        print(as_json(figures))
        sys.exit(bool(failed))
    if not chosen.names or "first_prompt" in chosen.names:
        print("\nImports before the first prompt:", flush=True)
        import_module("benchmarks.first_prompt").explain()
    if "durable_others" not in failed and "durable_others" in (chosen.names or NAMES):
        others = import_module("benchmarks.durable_others")
        print("\nA durable transition in other libraries:\n", flush=True)
        print(others.comparison(others.compare(chosen.quick)), flush=True)
    if "side_by_side" not in failed and "side_by_side" in (chosen.names or NAMES):
        print("\nThe same tasks in other libraries:\n", flush=True)
        print(import_module("benchmarks.side_by_side").comparison(chosen.quick), flush=True)
    if "prompts" not in failed and "prompts" in (chosen.names or NAMES):
        prompts = import_module("benchmarks.prompts")
        print("\nConsoles side by side:\n", flush=True)
        print(prompts.comparison(prompts.compare(chosen.quick)), flush=True)
    if "first_request" not in failed and "first_request" in (chosen.names or NAMES):
        first_request = import_module("benchmarks.first_request")
        print("\nThe first request, side by side:\n", flush=True)
        print(first_request.comparison(first_request.compare(chosen.quick)), flush=True)
    print(f"\nPython {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores\n")
    print(table(figures))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
