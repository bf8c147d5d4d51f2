"""What is shipped for tests of one's own.

`fakes` for a workflow: a model that is scripted, a clock that jumps, tools and a journal in memory; what
most tests take of it can be imported from here.
`contracts` for an adapter: subclass the port's and run it. `plugin` makes each rehearsal of a project a
test. `attacks` is what `midstream doctor --attack` tries on this machine.
"""

from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    JumpingClock,
    Scripted,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)

__all__ = [
    "Chronicle",
    "FakeTool",
    "FakeTools",
    "Gate",
    "JumpingClock",
    "Scripted",
    "ScriptedModel",
    "asks",
    "call",
    "calls",
    "define",
    "fake_world",
    "says",
]
