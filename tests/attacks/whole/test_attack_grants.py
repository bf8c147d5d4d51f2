"""Grants that are to cover more than what a person said yes to: patterns, other runs, other processes."""

import asyncio
from typing import Any

from deadline import DEADLINE_S as DEADLINE_S
from decide_kit import Step, approves, call, done, flow, go, of, replies, state, tell
from tables import table

from midstream.app.headless import Given, go_on, unapproved
from midstream.core.events import ToolCalled
from midstream.core.inputs import CallReviewed
from midstream.core.pending import ReviewCall, pending
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.ports import Review
from midstream.safety.capability import SHOWN, Capability
from midstream.safety.rules import capability_of, covers
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    ScriptedModel,
    asks,
    calls,
    define,
    fake_world,
)
from midstream.testing.fakes import (
    call as model_call,
)

TALK: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}

# --- a waiting approval, and what `midstream resume --allow` lets through --------------------------

NOT_LET: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # what is tried: what the call asks for, what was allowed
    "another command": (("exec: make install",), ("exec: make",)),
    "a command outside the sandbox": (("exec: make", "outside: make"), ("exec: make",)),
    "a line for a shell": (("shell: make | sh",), ("exec: make *", "exec: *")),
    "a star that a model wrote": (("exec: make '*'",), ("exec: make all",)),
    "one more than was allowed": (("exec: make", "net: \\*"), ("exec: make",)),
    "a protected file, by a rule for plain ones": (
        ("write_protected: .git/hooks/x",),
        ("write: **",),
    ),
    "a protected file, by the tool's name": (("write_protected: .midstream/a",), ("run",)),
    "one protected file of two, by the tool's name": (
        ("write: a", "write_protected: .github/workflows/a.yml"),
        ("run",),
    ),
    "another tool's name": (("exec: make",), ("runs",)),
    "leaving the sandbox, by the tool's name": (("exec: make", "outside: make"), ("run",)),
    "a line outside that no rule can say, by the tool's name": (
        ("outside: bash -c 'a\nb'",),
        ("run",),
    ),
    "a host, by the tool's name": (("exec: make", "net: example.org"), ("run",)),
    "the whole network, by the tool's name": (("exec: make", "net: \\*"), ("run",)),
    "what an older version granted in the sandbox": (
        ("exec: make",),
        ("sandboxed exec: make",),
    ),
    "a name that begins alike": (("write: docs/a.md",), ("write: docs",)),
    "a secret that was taken out": (
        ("exec: make TOKEN=[redacted: password]",),
        ("exec: make TOKEN=abc",),
    ),
    "what no rule can say": (("exec: make 'unclosed",), ("exec: *", "exec: make 'unclosed now")),
}
LET: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "the very command": (("exec: make",), ("exec: make",)),
    "a pattern a person wrote": (("exec: make test",), ("exec: make *",)),
    "a command outside the sandbox, named": (
        ("exec: make", "outside: make"),
        ("exec: make", "outside: *"),
    ),
    "a protected file, named": (
        ("write_protected: .midstream/a",),
        ("write_protected: .midstream/*",),
    ),
    "the tool's name": (("exec: make", "write: a"), ("run",)),
    "an MCP tool's name, for what its server reaches": (
        ("tool: mcp__x__y", "net: mcp__x"),
        ("run",),
    ),
    "two rules for two": (("exec: make", "write: a"), ("write: *", "exec: make")),
}


async def resumed(asks: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the calls that were made once a waiting run was resumed so, and what it still lacks."""
    store = MemoryStore()
    review = Review(kind="ask", asks=(*asks, f"{SHOWN}x"), shows="$ it", reason="It asks.")
    tools = FakeTools(FakeTool(name="run", effect="once", review=review))
    async with asyncio.timeout(DEADLINE_S):
        first = LocalEngine(
            fake_world(ScriptedModel(calls(model_call("run"))), tools=tools, journal=store), store
        )
        machine = await first.start(define(TALK, tools=tools))
        await machine.settled()
        await first.close()
        beside = store.beside()
        second = LocalEngine(
            fake_world(ScriptedModel("Done."), tools=tools, journal=beside), beside
        )
        run = await go_on(await second.resume(machine.id), Given(allowed=allowed))
        await second.close()
    return [called.name for called in tools.calls], unapproved(run) or ""


@table("attack", NOT_LET)
async def test_a_waiting_call_is_not_let_through_by(attack: str) -> None:
    asks, allowed = NOT_LET[attack]

    made, lacks = await resumed(asks, allowed)

    assert made == []
    assert "waits for your approval of run" in lacks


@table("way", LET)
async def test_a_waiting_call_is_let_through_by(way: str) -> None:
    assert await resumed(*LET[way]) == (["run"], "")


async def test_what_lacks_is_said_as_it_has_to_be_typed() -> None:
    _, lacks = await resumed(("exec: make 'a b'",), ())

    assert lacks.endswith("""--allow 'exec: make '"'"'a b'"'"''""")


TEXTS = [
    Capability(kind="exec", target="", argv=("make", "*", "a b", "it's")),
    Capability(kind="outside", target="", argv=("make", "*")),
    Capability(kind="outside", target="", argv=("bash", "-c", "a | b 'c'")),
    Capability(kind="write", target="docs/*.md"),
    Capability(kind="write_protected", target=".git/hooks/a?b\\c"),
    Capability(kind="read", target="."),
    Capability(kind="net", target="example.org:8080"),
    Capability(kind="tool", target="mcp__x__*"),
    Capability(kind="shell", target="a | b *"),
    Capability(kind="shell", target="*"),
]


@table("capability", TEXTS, ids=str)
def test_a_text_is_read_back_as_what_it_grants(capability: Capability) -> None:
    found = capability_of(str(capability))

    assert found is not None
    assert str(found) == str(capability)
    assert covers([str(capability)], found)


@table("text", ["exec: make *", "write: **", "net: *.x.org", "shell: *", "full", ""])
def test_a_pattern_is_nobodys_own_text(text: str) -> None:
    assert capability_of(text) is None


# --- for the run --------------------------------------------------------------------------------

DUDE = flow(state("start", "dude"))


def asked(*asks: str) -> Step:
    """Return the review of the call that waits for one: a person is to be asked."""

    def step(run: Run) -> CallReviewed:
        key = next(effect.key for effect in pending(run) if isinstance(effect, ReviewCall))
        return CallReviewed(
            key=key, kind="ask", asks=(*asks, f"{SHOWN}{key[2]}"), shows="$", reason="!"
        )

    return step


RUNS = replies("", call("run", command="x"))
FOR_RUN = {
    "the same with a secret taken out, which may be another": (
        ["exec: make TOKEN=[redacted: password]"],
        ["exec: make TOKEN=[redacted: password]"],
    ),
    "a pattern in what was granted": (["exec: make '*'"], ["exec: make all"]),
    "a longer command": (["exec: make"], ["exec: make all"]),
    "the same outside the sandbox": (["exec: make"], ["exec: make", "outside: make"]),
    "one of two that were granted, and another": (
        ["exec: make", "net: \\*"],
        ["exec: a", "net: \\*"],
    ),
    "the tool's own name": (["exec: make"], ["run"]),
}


@table("attack", FOR_RUN)
def test_a_grant_for_the_run_does_not_cover(attack: str) -> None:
    granted, wanted = FOR_RUN[attack]
    run, _ = tell(DUDE, RUNS, asked(*granted), approves("q1", for_run=True), done("call_1"))

    again, facts = go(run, RUNS, asked(*wanted))

    assert of(facts, ToolCalled) == []
    assert [question.status for question in again.inbox.questions] == ["answered", "open"]


def test_a_review_that_asks_for_nothing_it_can_name_is_asked_about_and_grants_nothing() -> None:
    run, facts = tell(DUDE, RUNS, asked())
    assert of(facts, ToolCalled) == []

    run, _ = go(run, approves("q1", for_run=True), done("call_1"))
    _, facts = go(run, RUNS, asked("exec: make"))

    assert run.allowed == ()
    assert of(facts, ToolCalled) == []


# --- in a fork ----------------------------------------------------------------------------------


async def test_a_fork_has_no_grant_that_was_taken_back_after_its_point() -> None:
    store = MemoryStore()
    review = Review(kind="ask", asks=("exec: make",), shows="$ make", reason="It asks.")
    tools = FakeTools(FakeTool(name="run", effect="once", review=review))
    model = ScriptedModel(calls(model_call("run")), asks("Go on?"))
    here = LocalEngine(fake_world(model, tools=tools, journal=store), store)
    machine = await here.start(define(TALK, tools=tools))
    await machine.settled()
    await machine.approve(
        machine.run.inbox.open_questions[0].id, Decision(granted=True, for_run=True)
    )
    await machine.settled()
    at = machine.run.seq
    assert machine.run.allowed == ("exec: make",)
    await machine.revoke("exec: make")
    await machine.stop("enough")
    made = await fork(store, machine.id, at)
    again = await here.resume(made.id)
    allowed = again.run.allowed
    await here.close()

    assert allowed == ()
