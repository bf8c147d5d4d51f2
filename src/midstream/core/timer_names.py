"""The names of the timers a state may have."""

TIMEOUT = "timeout"
"""The state has taken too long."""

DEADLINE = "deadline"
"""The state's question is to be answered by then; below 0 it is over."""

WAITED = "wait"
"""The state's wait is over."""

RETRY = "retry"
"""The state is tried again."""
