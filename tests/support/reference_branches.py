"""Reference workflows of runs within a run: branches, items, sub-workflows, and what happens in them.

See `support.reference`.
"""

import msgspec

from midstream.core.inputs import RequestedCall
from midstream.language.names import DELEGATE, Json
from midstream.language.spec import Role
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import FakeTool, FakeTools, call
from support.reference_states import BACK, DIG
from support.stage import (
    INPUT,
    LOOK,
    RECORD,
    Move,
    Reference,
    Reply,
    StageTool,
    State,
    asking,
    desk,
    says,
    script,
    works,
)


def of_branches() -> tuple[Reference, ...]:
    """Return the references about runs within a run, made anew."""
    return (
        _branches(),
        _addressed(),
        _enough(),
        _failing_branch(),
        _for_each(),
        _sub_workflow(),
        _nested(),
        _digging_branch(),
        _times(),
        _each_sub(),
        _too_long(),
        _approvals(),
        _tried_again(),
        _policies(),
        _tasks(),
    )


_THREE = ("structure", "spots", "tests")


def _three(**more: Json) -> list[State]:
    """Return three branches, each an agent's turn, and what follows them."""
    look: list[State] = [
        {"name": name, "agent": "worker", "prompt": f"Look at {name}.", "save_as": name}
        for name in _THREE
    ]
    return [
        {"name": "start", "parallel": list(_THREE), "save_as": "found", "next": "sum", **more},
        *look,
        {"name": "sum", "agent": "worker", "prompt": "${common_data.found}", "save_as": "report"},
        BACK,
    ]


def _look(request: ModelRequest) -> Reply:
    match request.state:
        case "structure":
            return works(request, call("record", key="structure-1"), then="Layers.")
        case "spots":
            return works(request, asking("Which files?"), then="One spot.")
        case "tests":
            return works(request, call("look", key="tests-1"), then="A few.")
        case _:
            return says(f"Told in {request.state}.")


def _branches() -> Reference:
    """Three branches at once: one does something, one asks, one looks."""
    return Reference(
        name="three branches",
        definition=desk(_three(), (RECORD, LOOK)),
        handlers=script(),
        model=_look,
        tools=(RECORD, LOOK),
        moves=(Move(cue="Which files?", text="src"),),
        path=("start", "sum", "stop"),
        ledger=("structure-1",),
    )


def _addressed() -> Reference:
    """Words to one of the branches; the others do not hear them."""

    def model(request: ModelRequest) -> Reply:
        is_told = any("only src" in message.text for message in request.messages)
        if request.state == "spots" and not is_told:
            return says("Everything ", "everywhere.", cue="looking")
        if request.state == "spots":
            return says("One spot in src.")
        return _look(request)

    return Reference(
        name="words to a branch",
        definition=desk(_three(), (RECORD, LOOK)),
        handlers=script(),
        model=model,
        tools=(RECORD, LOOK),
        moves=(Move(cue="looking", text="@spots only src"),),
        path=("start", "sum", "stop"),
        ledger=("structure-1",),
    )


def _enough() -> Reference:
    """Two of three branches are enough; the third, with a call that runs, is stopped."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "spots":
            return works(request, call("dig", key="spots-1"), then="Dug.")
        return _look(request)

    return Reference(
        name="enough branches",
        definition=desk(_three(join=2), (RECORD, LOOK, DIG)),
        handlers=script(),
        model=model,
        tools=(RECORD, LOOK, DIG),
        path=("start", "sum", "stop"),
        ledger=("spots-1", "structure-1"),
    )


def _failing_branch() -> Reference:
    """A branch that fails for good: the others are stopped and the state's error is caught."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "spots":
            return Reply(error="The line went dead.")
        return says(f"Told in {request.state}.")

    caught: Json = [{"on": ["branch"], "to": "sum", "save_as": "found"}]
    return Reference(
        name="a branch that fails",
        definition=desk(_three(catch=caught)),
        handlers=script(),
        model=model,
        path=("start", "sum", "stop"),
    )


def _for_each() -> Reference:
    """A branch for each item, two at once, each with states and a handler of its own."""

    def count(run: HandlerRun) -> None:
        run.common_data["length"] = len(str(run.last_response.text))

    states: list[State] = [
        {
            "name": "start",
            "for_each": {
                "items": "input",
                "states": [
                    {
                        "name": "one",
                        "agent": "worker",
                        "prompt": "${variables.index}: ${input}",
                        "post_handler": "count",
                        "next": "two",
                    },
                    {
                        "name": "two",
                        "tool": "record",
                        "arguments": {"key": "each-${input}"},
                        "save_as": "kept",
                    },
                ],
                "output": "common_data.length",
                "max_concurrency": 2,
            },
            "save_as": "lengths",
            "next": "tell",
        },
        {"name": "tell", "agent": "worker", "prompt": "${common_data.lengths}"},
        BACK,
    ]
    return Reference(
        name="for each",
        definition=desk(states, (RECORD,), input={"name": "files", "type": "array"}),
        handlers=script(count=count),
        model=lambda request: says(f"This is {request.input}."),
        tools=(RECORD,),
        input=["a", "bb", "ccc"],
        path=("start", "tell", "stop"),
        ledger=("each-a", "each-bb", "each-ccc"),
    )


def _sub_workflow() -> Reference:
    """A workflow within a workflow: with a script of its own, a question and a `resume`."""

    def sharpen(run: HandlerRun) -> None:
        run.common_data["sharp"] = f"{run.input}!"

    def model(request: ModelRequest) -> Reply:
        if request.state == "dig":
            return works(request, asking("How deep?"), call("record", key="inner-1"), then="Deep.")
        return says(f"Told in {request.state}.")

    inner = desk(
        [
            {"name": "start", "pre_handler": "sharpen", "next": "dig"},
            {
                "name": "dig",
                "agent": "worker",
                "prompt": "${common_data.sharp} ${variables.how}",
                "save_as": "depth",
                "next": "sure",
            },
            {"name": "sure", "ask": "Sure?", "save_as": "sure"},
            BACK,
        ],
        (RECORD,),
        workflow_name="inner",
        variables={"how": "?"},
    )
    outer = desk(
        [
            {
                "name": "start",
                "workflow": {
                    "name": "inner",
                    "input": "${input}, now",
                    "variables": {"how": "slowly"},
                    "output": {"sure": "common_data.sure", "whole": "output"},
                },
                "save_as": "result",
                "next": "tell",
            },
            {"name": "tell", "agent": "worker", "prompt": "${common_data.sure}"},
            BACK,
        ],
        (RECORD,),
    )
    return Reference(
        name="sub-workflow",
        definition=msgspec.structs.replace(outer, workflows={"inner": inner}),
        handlers=script().around({"inner": script(sharpen=sharpen)}),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="How deep?", text="a mile"), Move(cue="Sure?", text="yes")),
        input="dig",
        path=("start", "tell", "stop"),
        ledger=("inner-1",),
    )


def _nested() -> Reference:
    """Branches in a branch, one of them with a shared conversation and a loop."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "each":
            key = f"nested-{request.input}"
            return works(request, call("record", key=key), then=f"Had {request.input}.")
        return says(f"Told in {request.state}.")

    states: list[State] = [
        {
            "name": "start",
            "parallel": [
                {
                    "name": "left",
                    "states": [
                        {
                            "name": "list",
                            "for_each": {"items": "common_data.items", "state": "each"},
                            "save_as": "had",
                        },
                        {"name": "each", "agent": "worker", "prompt": "Take ${input}."},
                    ],
                },
                {
                    "name": "right",
                    "shared": ["desk"],
                    "states": [
                        {
                            "name": "loop",
                            "agent": "worker",
                            "prompt": "Round ${visits.loop}.",
                            "transitions": [
                                {"when": "visits.loop < 2", "to": "loop"},
                                {"to": "stop"},
                            ],
                        },
                    ],
                },
            ],
            "pre_handler": "list_items",
            "save_as": "found",
        },
        BACK,
    ]

    def list_items(run: HandlerRun) -> None:
        run.common_data["items"] = ["x", "y"]

    return Reference(
        name="branches in a branch",
        definition=desk(states, (RECORD,)),
        handlers=script(list_items=list_items),
        model=model,
        tools=(RECORD,),
        path=("start", "stop"),
        ledger=("nested-x", "nested-y"),
    )


def _digging_branch() -> Reference:
    """Unasked words while a branch's `once` tool runs: everything is held, and goes on after."""
    states: list[State] = [
        {
            "name": "start",
            "parallel": [
                {
                    "name": "dig",
                    "states": [
                        {
                            "name": "d",
                            "tool": "dig",
                            "arguments": {"key": "dig-1"},
                            "save_as": "d",
                            "catch": [{"on": ["tool"], "to": "verify"}],
                        },
                        {"name": "verify", "agent": "worker", "prompt": "Verify."},
                    ],
                },
                {
                    "name": "talk",
                    "states": [{"name": "t", "agent": "worker", "prompt": "Talk."}],
                },
            ],
            "save_as": "found",
        },
        BACK,
    ]
    return Reference(
        name="a branch that digs",
        definition=desk(states, (DIG,)),
        handlers=script(),
        model=lambda request: says(f"Told in {request.state}."),
        tools=(DIG,),
        moves=(Move(cue="digging", text="mind the cable"),),
        path=("start", "resume", "start", "stop"),
        ledger=("dig-1",),
    )


def _branch(name: str, *states: State, **more: Json) -> State:
    """Return a branch with states of its own."""
    return {"name": name, "states": list(states), **more}


def _done(key: str) -> list[State]:
    """Return how a branch ends: with something done once, or a look at whether it was."""
    return [
        {
            "name": "done",
            "tool": "record",
            "arguments": {"key": key},
            "catch": [{"on": ["tool"], "to": "verify"}],
        },
        {"name": "verify", "agent": "worker", "prompt": "Verify."},
    ]


def _times() -> Reference:
    """Four branches that wait, each for a time of another kind, and then do something."""

    def model(request: ModelRequest) -> Reply:
        match request.state:
            case "write":
                return says("Long ", "and longer.", cue="writing")
            case "try":
                return Reply(pieces=("I am ",), error="The line went dead.")
            case _:
                return says(f"Told in {request.state}.")

    branches = [
        _branch("pause", {"name": "rest", "wait": 3600, "next": "done"}, *_done("pause-1")),
        _branch(
            "slow",
            {
                "name": "write",
                "agent": "worker",
                "prompt": "Write.",
                "timeout_s": 30,
                "retry": {"max_attempts": 2, "backoff_s": 5, "on": ["timeout"]},
                "catch": [{"on": ["timeout"], "to": "done"}],
            },
            *_done("slow-1"),
        ),
        _branch(
            "ask",
            {
                "name": "well",
                "ask": {
                    "question": "Well?",
                    "deadline_s": 60,
                    "on_timeout": "goto",
                    "to": "done",
                },
            },
            *_done("ask-1"),
        ),
        _branch(
            "failing",
            {
                "name": "try",
                "agent": "worker",
                "prompt": "Try.",
                "retry": {"max_attempts": 3, "backoff_s": 10},
                "catch": [{"on": ["model"], "to": "done"}],
            },
            *_done("failing-1"),
        ),
    ]
    return Reference(
        name="times in branches",
        definition=desk(
            [{"name": "start", "parallel": branches, "save_as": "found"}, BACK], (RECORD,)
        ),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="writing", kind="wait"), Move(cue="Well?", kind="wait")),
        path=("start", "stop"),
        ledger=("ask-1", "failing-1", "pause-1", "slow-1"),
    )


def _each_sub() -> Reference:
    """A sub-workflow for each item, two at once: each asks, and goes on in branches of its own."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "act":
            key = f"sub-{request.input}"
            return works(request, call("record", key=key), then=f"Did {request.input}.")
        return says(f"Told in {request.state}.")

    inner = desk(
        [
            {"name": "start", "ask": "Sure of ${input}?", "save_as": "sure", "next": "both"},
            {
                "name": "both",
                "parallel": [
                    _branch("do", {"name": "act", "agent": "worker", "prompt": "${input}"}),
                    _branch("rest", {"name": "doze", "wait": 60}),
                ],
                "save_as": "had",
            },
            BACK,
        ],
        (RECORD,),
        workflow_name="inner",
    )
    outer = desk(
        [
            {
                "name": "start",
                "for_each": {
                    "items": "input",
                    "states": [{"name": "one", "workflow": {"name": "inner", "input": "${input}"}}],
                    "max_concurrency": 2,
                },
                "save_as": "all",
            },
            BACK,
        ],
        (RECORD,),
        input={"name": "items", "type": "array"},
    )
    return Reference(
        name="a sub-workflow for each",
        definition=msgspec.structs.replace(outer, workflows={"inner": inner}),
        handlers=script().around({"inner": script()}),
        model=model,
        tools=(RECORD,),
        moves=tuple(Move(cue=f"Sure of {item}?", text=f"of {item}") for item in "xyz"),
        input=["x", "y", "z"],
        path=("start", "stop"),
        ledger=("sub-x", "sub-y", "sub-z"),
    )


def _too_long() -> Reference:
    """Branches that take too long, with a call that runs and a question that is open."""
    branches = [
        _branch("dig", {"name": "d", "tool": "dig", "arguments": {"key": "late-1"}}),
        _branch("ask", {"name": "a", "ask": "Which?", "save_as": "which"}),
        _branch("talk", {"name": "t", "agent": "worker", "prompt": "Talk."}),
    ]
    states: list[State] = [
        {
            "name": "start",
            "parallel": branches,
            "timeout_s": 30,
            "catch": [
                {"on": ["timeout"], "to": "tell", "save_as": "late"},
                {"on": ["branch"], "to": "tell", "save_as": "late"},
            ],
        },
        {"name": "tell", "agent": "worker", "prompt": "${common_data.late?in time}"},
        BACK,
    ]
    return Reference(
        name="branches that take too long",
        definition=desk(states, (DIG,)),
        handlers=script(),
        model=lambda request: says(f"Told in {request.state}."),
        tools=(DIG,),
        moves=(Move(cue="digging", kind="wait"), Move(cue="Which?", kind="wait")),
        path=("start", "tell", "stop"),
        ledger=("late-1",),
    )


def _approvals() -> Reference:
    """Calls in two branches that need a yes: an agent's gets it, a state's own does not."""
    tools = tuple(
        StageTool(name=name, effect="once", needs_approval=True) for name in ("deploy", "drop")
    )

    def model(request: ModelRequest) -> Reply:
        if request.state == "d":
            return works(request, call("deploy", key="branch-deploy"), then="Told.")
        return says(f"Told in {request.state}.")

    branches = [
        _branch("one", {"name": "d", "agent": "worker", "prompt": "Deploy."}),
        _branch(
            "two",
            {
                "name": "r",
                "tool": "drop",
                "arguments": {"key": "branch-drop"},
                "catch": [{"on": ["denied", "tool"], "to": "sorry"}],
            },
            {"name": "sorry", "agent": "worker", "prompt": "Sorry."},
        ),
    ]
    return Reference(
        name="approvals in branches",
        definition=desk([{"name": "start", "parallel": branches}, BACK], tools),
        handlers=script(),
        model=model,
        tools=tools,
        moves=(Move(cue="drop", kind="refuse"),),
        path=("start", "stop"),
        ledger=("branch-deploy",),
    )


def _tried_again() -> Reference:
    """A state of branches that is tried again, as one of them failed while the others had a call."""

    def model(request: ModelRequest) -> Reply:
        tries = sum("Try." in message.text for message in request.messages)
        if request.state == "try" and tries < 2:
            return Reply(pieces=("I am ",), error="The line went dead.")
        if request.state == "look":
            return works(request, call("look", key="again-1"), then="Seen.")
        return says(f"Told in {request.state}.")

    branches = [
        _branch("one", {"name": "try", "agent": "worker", "prompt": "Try."}, shared=["desk"]),
        _branch("two", {"name": "look", "agent": "worker", "prompt": "Look."}),
    ]
    states: list[State] = [
        {
            "name": "start",
            "parallel": branches,
            "retry": {"max_attempts": 3, "backoff_s": 20, "on": ["branch"]},
            "save_as": "found",
        },
        BACK,
    ]
    return Reference(
        name="branches tried again",
        definition=desk(states, (LOOK,)),
        handlers=script(),
        model=model,
        tools=(LOOK,),
        path=("start", "stop"),
    )


def _tasks() -> Reference:
    """An agent hands two tasks on, one of which hands on once more; words are for one of them."""

    def task(role: str) -> RequestedCall:
        return call(DELEGATE, key=role, role=role, task=f"Be the {role}.")

    def model(request: ModelRequest) -> Reply:
        is_told = any("be brief" in message.text for message in request.messages)
        match request.agent:
            case "coder":
                return works(request, call("record", key="coder-1"), then="Coded.")
            case "reader" if not is_told:
                return says("Reading ", "on.", cue="reading")
            case "reader":
                return works(request, task("helper"), then="Read.")
            case "helper":
                return works(request, call("dig", key="helper-1"), then="Helped.")
        if request.state != "start":
            return says("I hear you.")
        return works(request, task("coder"), task("reader"), task("nobody"), then="All done.")

    states: list[State] = [{"name": "start", "agent": "worker", "prompt": "Do it."}, BACK]
    definition = desk(states, (RECORD, DIG))
    tools = {**definition.tools, DELEGATE: FakeTools(FakeTool(name=DELEGATE)).specs()[DELEGATE]}
    definition = msgspec.structs.replace(
        definition,
        tools=tools,
        delegates={name: Role() for name in ("coder", "reader", "helper")},
    )
    return Reference(
        name="tasks handed on",
        definition=definition,
        handlers=script(),
        model=model,
        tools=(RECORD, DIG),
        moves=(Move(cue="reading", text="@reader be brief"),),
        path=("start", "stop"),
        ledger=("coder-1", "helper-1"),
    )


def _policies() -> Reference:
    """Words to branches that keep them for later, take them in, resume by themselves, or wait for them."""

    def model(request: ModelRequest) -> Reply:
        is_told = any(message.text.startswith("be ") for message in request.messages)
        cue = {"late": "keeping", "join": "taking", "own": "cutting"}.get(request.state, "")
        if is_told or not cue:
            return says(f"Told in {request.state}.")
        return says("On ", "and on.", cue=cue)

    def work(name: str, **more: Json) -> State:
        return {"name": name, "agent": "worker", "prompt": f"Do {name}.", **more}

    branches = [
        _branch("queue", work("late", on_input="queue", next="then"), work("then")),
        _branch("steer", work("join", on_input="steer")),
        _branch(
            "resume",
            work("own", resume="listen"),
            {"name": "listen", "agent": "worker", "next": "$interrupted"},
        ),
        _branch("words", {"name": "hear", "agent": "worker", "awaits_input": True}),
    ]
    return Reference(
        name="words of every kind to branches",
        definition=desk([{"name": "start", "parallel": branches, "save_as": "found"}, BACK]),
        handlers=script(),
        model=model,
        moves=(
            Move(cue="keeping", text="@queue be patient"),
            Move(cue="taking", text="@steer be brief"),
            Move(cue="cutting", text="@resume be short"),
            Move(cue=INPUT, text="be there"),
        ),
        path=("start", "stop"),
    )
