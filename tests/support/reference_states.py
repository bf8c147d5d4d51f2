"""Reference workflows of states that need no script: their kinds and their errors.

See `support.reference`.
"""

from typing import Final

from midstream.core.inputs import RequestedCall
from midstream.language.names import Json
from midstream.language.plan import SUBMIT
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import call
from support.stage import (
    LOOK,
    RECORD,
    Move,
    Reference,
    Reply,
    StageTool,
    State,
    desk,
    says,
    script,
    works,
)

DIG: Final = StageTool(name="dig", effect="once", cue="digging")
BACK: Final[State] = {"name": "resume", "agent": "worker", "next": "$interrupted"}
"""Where unasked words lead, and from there back to what they cut."""


def of_states() -> tuple[Reference, ...]:
    """Return the references about single states, made anew."""
    return (
        _tool_states(),
        _dig(),
        _ask(),
        _deadline(),
        _expired(),
        _wait(),
        _retry_and_catch(),
        _timeout(),
        _budget(),
        _visits(),
        _structured(),
        _back_again(),
    )


def _tool_states() -> Reference:
    """A state that looks, one that does something once, and an agent that hears of both."""
    states: list[State] = [
        {
            "name": "start",
            "tool": "look",
            "arguments": {"key": "look-${input}"},
            "save_as": "seen",
            "next": "do",
        },
        {
            "name": "do",
            "tool": "record",
            "arguments": {"key": "tool-${input}"},
            "save_as": "done",
            "next": "tell",
            "catch": [{"on": ["tool"], "to": "tell", "save_as": "done"}],
        },
        {
            "name": "tell",
            "agent": "worker",
            "prompt": "${common_data.seen}, ${common_data.done}",
            "save_as": "told",
        },
        BACK,
    ]
    return Reference(
        name="tool states",
        definition=desk(states, (LOOK, RECORD)),
        handlers=script(),
        model=lambda request: says("All ", "told."),
        tools=(LOOK, RECORD),
        input="here",
        path=("start", "do", "tell", "stop"),
        ledger=("tool-here",),
    )


def _dig() -> Reference:
    """Words while the `once` tool of a state runs: it is stopped, and nobody makes the call again."""
    states: list[State] = [
        {
            "name": "start",
            "tool": "dig",
            "arguments": {"key": "dig-1"},
            "save_as": "dug",
            "catch": [{"on": ["tool"], "to": "verify", "save_as": "trouble"}],
        },
        {"name": "verify", "agent": "worker", "prompt": "${common_data.trouble.error}"},
        BACK,
    ]
    return Reference(
        name="tool state, stopped",
        definition=desk(states, (DIG,)),
        handlers=script(),
        model=lambda request: says("Minded."),
        tools=(DIG,),
        moves=(Move(cue="digging", text="mind the cable"),),
        path=("start", "resume", "start", "verify", "stop"),
        ledger=("dig-1",),
    )


def _ask() -> Reference:
    """A state asks by itself, twice, and where it goes follows from the answers."""
    states: list[State] = [
        {
            "name": "start",
            "ask": {"question": "Which ${input}?", "choices": ["red", "blue"]},
            "save_as": "colour",
            "next": "many",
        },
        {
            "name": "many",
            "ask": {"question": "How many?", "schema": {"type": "integer"}},
            "save_as": "count",
            "transitions": [{"when": "common_data.count > 2", "to": "start"}, {"to": "stop"}],
        },
        BACK,
    ]
    return Reference(
        name="asking states",
        definition=desk(states),
        handlers=script(),
        model=lambda request: says("As they say."),
        moves=(Move(cue="Which colour?", text="blue"), Move(cue="How many?", text="2")),
        input="colour",
        path=("start", "many", "stop"),
    )


def _deadline() -> Reference:
    """A question that is answered in time, though it would not wait for ever."""
    states: list[State] = [
        {
            "name": "start",
            "ask": {
                "question": "Well?",
                "deadline_s": 60,
                "on_timeout": "default",
                "default": "no",
            },
            "save_as": "out",
        },
        BACK,
    ]
    return Reference(
        name="answered in time",
        definition=desk(states),
        handlers=script(),
        model=lambda request: says("In time."),
        moves=(Move(cue="Well?", text="yes"),),
        path=("start", "stop"),
    )


def _expired() -> Reference:
    """A question nobody answers in time, then one that leads elsewhere."""
    states: list[State] = [
        {
            "name": "start",
            "ask": {
                "question": "Well?",
                "deadline_s": 60,
                "on_timeout": "default",
                "default": "no",
            },
            "save_as": "out",
            "next": "again",
        },
        {
            "name": "again",
            "ask": {"question": "Really?", "deadline_s": 60, "on_timeout": "goto", "to": "late"},
        },
        {"name": "late", "agent": "worker", "prompt": "Too late: ${common_data.out}."},
        BACK,
    ]
    return Reference(
        name="answered too late",
        definition=desk(states),
        handlers=script(),
        model=lambda request: says("A pity."),
        moves=(Move(cue="Well?", kind="wait"), Move(cue="Really?", kind="wait")),
        path=("start", "again", "late", "stop"),
    )


def _wait() -> Reference:
    """A pause of an hour, and one until a time."""
    states: list[State] = [
        {"name": "start", "wait": 3600, "next": "then"},
        {"name": "then", "wait": {"until": "${input}"}, "next": "work"},
        {"name": "work", "agent": "worker", "prompt": "It is time."},
        BACK,
    ]
    return Reference(
        name="waiting for times",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=lambda request: works(request, call("record", key="wait-1"), then="Done."),
        tools=(RECORD,),
        input="2023-11-15T06:00:00Z",
        path=("start", "then", "work", "stop"),
        ledger=("wait-1",),
    )


def _retry_and_catch() -> Reference:
    """A model that always fails: tried three times, then caught."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "start":
            return Reply(pieces=("I am ",), error="The line went dead.")
        return works(request, call("record", key="sorry-1"), then="Sorry.")

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "prompt": "Try.",
            "retry": {"max_attempts": 3, "backoff_s": 5},
            "catch": [{"on": ["model"], "to": "sorry", "save_as": "trouble"}],
        },
        {"name": "sorry", "agent": "worker", "prompt": "${common_data.trouble.error}"},
        BACK,
    ]
    return Reference(
        name="retry and catch",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        path=("start", "sorry", "stop"),
        ledger=("sorry-1",),
    )


def _timeout() -> Reference:
    """A reply that takes too long is cut, and the state tried once more."""

    def model(request: ModelRequest) -> Reply:
        if any(message.interrupted for message in request.messages):
            return says("Short.")
        return says("Long ", "and longer.", cue="writing")

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "prompt": "Write.",
            "timeout_s": 30,
            "retry": {"max_attempts": 2, "backoff_s": 1, "on": ["timeout"]},
        },
        BACK,
    ]
    return Reference(
        name="taking too long",
        definition=desk(states),
        handlers=script(),
        model=model,
        moves=(Move(cue="writing", kind="wait"),),
        path=("start", "stop"),
    )


def _budget() -> Reference:
    """An agent that calls a tool for ever, within its budget."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "tell":
            return says("Enough.")
        calls = sum(len(message.calls) for message in request.messages)
        return Reply(calls=(call("record", key=f"budget-{calls + 1}"),))

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "budget": {"tool_calls": 2},
            "catch": [{"on": ["budget"], "to": "tell"}],
        },
        {"name": "tell", "agent": "worker"},
        BACK,
    ]
    return Reference(
        name="budget",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        path=("start", "tell", "stop"),
        ledger=("budget-1", "budget-2"),
    )


def _visits() -> Reference:
    """A loop that ends because its state was visited often enough."""
    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "prompt": "Round ${visits.start}.",
            "save_as": "out",
            "max_visits": 3,
            "transitions": [{"when": "'enough' in last.text", "to": "stop"}, {"to": "start"}],
            "catch": [{"on": ["max_visits"], "to": "stop"}],
        },
        BACK,
    ]
    return Reference(
        name="visits",
        definition=desk(states),
        handlers=script(),
        model=lambda request: says(f"Round {request.visit} done."),
        path=("start", "start", "start", "stop"),
    )


def _structured() -> Reference:
    """A reply that has to fit a schema: words first, then what was wanted."""
    schema: Json = {"type": "array", "items": {"type": "string"}}

    def model(request: ModelRequest) -> Reply:
        if request.request == 1:
            return says("One and two.")
        return Reply(calls=(RequestedCall(name=SUBMIT, arguments={"value": ["one", "two"]}),))

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "prompt": "List.",
            "output_schema": schema,
            "save_as": "out",
        },
        BACK,
    ]
    return Reference(
        name="structured reply",
        definition=desk(states),
        handlers=script(),
        model=model,
        path=("start", "stop"),
    )


def _back_again() -> Reference:
    """Words lead to the state's own `resume`, and from there back into the same turn."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "listen":
            return says("I hear.")
        if not any(message.text == "shorter" for message in request.messages):
            return works_then_stands(request)
        return says("A short essay.")

    def works_then_stands(request: ModelRequest) -> Reply:
        reply = works(request, call("record", key="back-1"), then="A long ")
        if reply.calls:
            return reply
        return says("A long ", "essay.", cue="writing")

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "prompt": "Write.",
            "resume": "listen",
            "save_as": "essay",
        },
        {"name": "listen", "agent": "worker", "next": "$interrupted"},
    ]
    return Reference(
        name="back to what was cut",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="writing", text="shorter"),),
        path=("start", "listen", "start", "stop"),
        ledger=("back-1",),
    )
