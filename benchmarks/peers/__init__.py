"""The same three tasks, written with each library as its documentation teaches it.

A module is named as the program in `benchmarks.programs` that times the same library. `driver.py` calls its
functions in a process that may be killed; `benchmarks.side_by_side` makes a table of what happened, and
counts the lines below each heading. Docstrings take one line here, so that they are easily left out.

* `loop(folder, speak)`: a writer and a critic take turns, until the critic says "good" or four drafts
  are written; returns the last draft.
* `ask(folder, tool)`: a run asks for a colour and lets go of its process; returns what an answer has to
  name. `answer(folder, asked, words, tool)`: the answer, from another process; the run then calls the
  tool with it and returns the result.
* `act(folder, tool)`: one state calls the tool, a second one reports. `go_on(folder, tool)`: another
  process goes on with it.
* `halt(folder)`, where a library has it: halts what runs. Else the task that runs it is cancelled.

All a run keeps lies in `folder`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

Speak: TypeAlias = Callable[[str, str], AsyncIterator[str]]
"""Yields the reply to a role and a prompt in pieces, in place of a model."""

Tool: TypeAlias = Callable[[str], Awaitable[str]]
"""Has an effect that must not happen twice."""
