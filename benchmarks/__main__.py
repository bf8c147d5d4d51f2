"""All benchmarks in turn, and one table: `python -m benchmarks [--quick | --profile] [--json] [NAME ...]`.

A benchmark is a module with `measure(is_quick)`, which returns its figures. With `comparison(is_quick)` it
has a table of its own, too; with `explain()` it prints where the time or the memory goes.
"""

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
    parser.add_argument("--profile", action="store_true", help="where it goes, of those that know")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if chosen.profile:
        for name in chosen.names or NAMES:
            module = import_module(f"benchmarks.{name}")
            if hasattr(module, "explain"):
                print(f"\n{name}:", flush=True)
                module.explain()
        return
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
    for name in chosen.names or NAMES:
        module = import_module(f"benchmarks.{name}")
        if hasattr(module, "comparison") and name not in failed:
            print(f"\n{name}:\n\n{module.comparison(chosen.quick)}", flush=True)
    print(f"\nPython {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores\n")
    print(table(figures))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
