#!/usr/bin/env python3
"""PreToolUse of execute_terminal: refuse what leaves this machine for good."""

import json
import re
import sys

call = json.load(sys.stdin)
command = str(call["tool_input"].get("command", ""))
if re.search(r"\bgit\b.*\bpush\b|\bnpm publish\b|\btwine upload\b", command):
    print(
        "Pushing and publishing is done by a person here. Say what you would push.", file=sys.stderr
    )
    sys.exit(2)
