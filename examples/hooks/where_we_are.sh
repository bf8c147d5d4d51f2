#!/bin/sh
# UserPromptSubmit: tell the agent with each line what has changed in the work tree. What it prints is added.
cat > /dev/null
changed=$(git status --short 2> /dev/null | head -20)
[ -z "$changed" ] || printf 'Changed and not committed:\n%s\n' "$changed"
