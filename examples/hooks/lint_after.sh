#!/bin/sh
# PostToolUse of write_file|edit_file: tell the agent at once what it broke. It needs python3 alone.
path=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["tool_input"].get("path", ""))')
case $path in
*.py) ;;
*) exit 0 ;;
esac
if ! said=$(python3 -m py_compile "$path" 2>&1); then
    echo "$path does not compile: $said" >&2
    exit 2
fi
