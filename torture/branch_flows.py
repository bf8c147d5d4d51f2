"""Flows of branches: a run within the run, items, sub-workflows, and times and calls in them."""

from typing import Any

from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.runtime.ports import ModelRequest
from torture.flow_kit import (
    BACK,
    VERIFY,
    Flow,
    Reply,
    Step,
    asked,
    asks,
    at_work,
    calls,
    definition_of,
    flow,
    heard,
    in_call,
    results,
    tool_state,
    words,
)

_THREE: list[dict[str, Json]] = [
    {
        "name": "start",
        "parallel": ["left", "middle", "right"],
        "save_as": "found",
        "next": "sum",
    },
    *({"name": n, "agent": "a", "prompt": f"Do {n}."} for n in ("left", "middle", "right")),
    {"name": "sum", "agent": "b", "prompt": "${common_data.found}", "next": "stop"},
    BACK,
]


def _three(request: ModelRequest) -> Reply:
    """Return what each branch does: one sends, one asks, one looks."""
    if results(request):
        return words(f"{request.state} is done.")
    match request.state:
        case "left":
            return calls(request, "send")
        case "middle":
            return asks("Which?")
        case "right":
            return calls(request, "look", "write")
        case _:
            return words()


def _addressed(request: ModelRequest) -> Reply:
    if request.state == "middle":
        return words() if heard(request) else None
    return _three(request)


def _slow_branch(request: ModelRequest) -> Reply:
    if request.state == "left" and not results(request):
        return calls(request, "slow")
    return words() if request.state == "middle" else _three(request)


_EACH: list[dict[str, Json]] = [
    {
        "name": "start",
        "for_each": {
            "items": "common_data.items",
            "states": [
                tool_state("one", "send", "each-${input}", next="two"),
                {"name": "two", "agent": "a", "prompt": "Say ${input}.", "next": "stop"},
                VERIFY,
            ],
            "max_concurrency": 2,
        },
        "pre_handler": "items",
        "save_as": "had",
        "next": "stop",
    },
    BACK,
]


def _items(run: Any) -> None:
    run.common_data["items"] = ["x", "y", "z"]


def _sharpen(run: Any) -> None:
    run.common_data["sharp"] = f"{run.input}!"


_INNER: list[dict[str, Json]] = [
    {"name": "start", "pre_handler": "sharpen", "next": "ask"},
    {"name": "ask", "agent": "a", "prompt": "${common_data.sharp}", "next": "sure"},
    {"name": "sure", "ask": "Sure?", "save_as": "sure", "next": "do"},
    tool_state("do", "send", "inner-1", next="stop"),
    VERIFY,
    BACK,
]
_OUTER: list[dict[str, Json]] = [
    {
        "name": "start",
        "workflow": {"name": "inner", "input": "now", "output": {"sure": "common_data.sure"}},
        "next": "tell",
    },
    {"name": "tell", "agent": "b", "prompt": "${common_data.sure?never}", "next": "stop"},
    BACK,
]


def _asks_inside(request: ModelRequest) -> Reply:
    return asks("How?") if request.state == "ask" and not results(request) else words()


def _sent(key: str) -> list[dict[str, Json]]:
    """Return how a branch ends: with something done once."""
    return [tool_state("done", "send", f"sent-{key}", next="stop"), VERIFY]


_DEEP: list[dict[str, Json]] = [
    tool_state("start", "send", "deep-${input}", next="say"),
    {"name": "say", "agent": "a", "prompt": "Say ${input}.", "next": "stop"},
    VERIFY,
    BACK,
]
_NESTED: list[dict[str, Json]] = [
    {
        "name": "start",
        "pre_handler": "items",
        "parallel": [
            {
                "name": "left",
                "states": [
                    {
                        "name": "list",
                        "for_each": {
                            "items": "common_data.items",
                            "states": [
                                tool_state("one", "send", "one-${input}", next="deep"),
                                {"name": "deep", "workflow": {"name": "deep", "input": "${input}"}},
                                VERIFY,
                            ],
                            "max_concurrency": 2,
                        },
                        "save_as": "had",
                    }
                ],
            },
            {
                "name": "right",
                "states": [
                    tool_state("first", "send", "right", next="sure"),
                    {"name": "sure", "ask": "Sure?", "save_as": "sure", "next": "stop"},
                    VERIFY,
                ],
            },
        ],
        "save_as": "found",
        "next": "stop",
    },
    BACK,
]

_TIMES: list[dict[str, Json]] = [
    {
        "name": "start",
        "parallel": [
            {
                "name": "pause",
                "states": [{"name": "wait", "wait": 0.03, "next": "done"}, *_sent("p")],
            },
            {
                "name": "slow",
                "states": [
                    {
                        "name": "endless",
                        "agent": "a",
                        "timeout_s": 0.03,
                        "retry": {"max_attempts": 2, "backoff_s": 0.01, "on": ["timeout"]},
                        "catch": [{"on": ["timeout"], "to": "done"}],
                    },
                    *_sent("s"),
                ],
            },
            {
                "name": "asked",
                "states": [
                    {
                        "name": "ask",
                        "ask": {
                            "question": "Which?",
                            "deadline_s": 0.03,
                            "on_timeout": "goto",
                            "to": "done",
                        },
                        "next": "stop",
                    },
                    *_sent("a"),
                ],
            },
            {
                "name": "failing",
                "states": [
                    {
                        "name": "try",
                        "agent": "a",
                        "retry": {"max_attempts": 3, "backoff_s": 0.01},
                        "catch": [{"on": ["model"], "to": "done"}],
                    },
                    *_sent("f"),
                ],
            },
        ],
        "save_as": "found",
        "next": "stop",
    },
    BACK,
]


def _waits_for_on(request: ModelRequest) -> Reply:
    is_told = any(message.text == "on!" for message in request.messages)
    return words() if request.state != "ask" or is_told else None


def _deep_waits(request: ModelRequest) -> Reply:
    """Return words, but for one item's sub-workflow: that streams until it is told to go on."""
    is_told = any(message.text == "on!" for message in request.messages)
    return words() if (request.state, request.input) != ("say", "x") or is_told else None


def _times(request: ModelRequest) -> Reply:
    if request.state == "try":
        raise WorldTrouble("The model is out.")
    return None if request.state == "endless" else words()


_ANY: list[dict[str, Json]] = [
    {"name": "start", "parallel": ["quick", "slow", "idle"], "join": "any", "next": "tell"},
    {"name": "quick", "agent": "a", "prompt": "Quick.", "next": "stop"},
    tool_state("slow", "slow", "slow-1", next="stop"),
    {"name": "idle", "agent": "a", "prompt": "Idle.", "next": "stop"},
    VERIFY,
    {"name": "tell", "agent": "b", "prompt": "Tell.", "next": "stop"},
    BACK,
]
_LOST: list[dict[str, Json]] = [
    {**_ANY[0], "join": "all", "catch": [{"on": ["branch"], "to": "tell"}]},
    *_ANY[1:],
]


def _enough(request: ModelRequest) -> Reply:
    return None if request.state == "idle" else words()


def _lost(request: ModelRequest) -> Reply:
    if request.state == "quick":
        raise WorldTrouble("The model is out.")
    return _enough(request)


_DEEPER: dict[str, Any] = {
    "workflows": {"deep": definition_of("deep", _DEEP)},
    "handlers": {"items": _items},
}

OF_BRANCHES: tuple[Flow, ...] = (
    flow("branches", _THREE, _three, steps=(Step(when=asked, text="the first"),), passes=("sum",)),
    flow(
        "halted_branches",
        _THREE,
        _slow_branch,
        steps=(Step(when=in_call, text="wait"),),
        passes=("sum",),
    ),
    flow(
        "words_to_a_branch",
        _THREE,
        _addressed,
        steps=(Step(when=at_work("middle"), text="@middle quickly"),),
        passes=("sum",),
    ),
    flow("for_each", _EACH, lambda r: words(f"{r.input}"), handlers={"items": _items}),
    flow(
        "sub_workflow",
        _OUTER,
        _asks_inside,
        workflows={"inner": definition_of("inner", _INNER)},
        inner={"inner": {"sharpen": _sharpen}},
        steps=(Step(when=asked, text="well"), Step(when=asked, text="yes")),
        passes=("tell",),
    ),
    flow(
        "halted_sub_workflow",
        _OUTER,
        _waits_for_on,
        workflows={"inner": definition_of("inner", _INNER)},
        inner={"inner": {"sharpen": _sharpen}},
        steps=(
            Step(when=at_work("inner"), text="stop that"),
            Step(when=at_work("inner"), text="@inner on!"),
            Step(when=asked, text="yes"),
        ),
        passes=("resume", "tell"),
    ),
    flow(
        "nested_branches",
        _NESTED,
        lambda r: words(),
        steps=(Step(when=asked, text="yes"),),
        **_DEEPER,
    ),
    flow(
        "halted_nested_branches",
        _NESTED,
        _deep_waits,
        steps=(
            Step(when=at_work("left/1/deep"), text="stop that"),
            Step(when=at_work("left/1/deep"), text="@left/1/deep on!"),
            Step(when=asked, text="yes"),
        ),
        **_DEEPER,
    ),
    flow("times_in_branches", _TIMES, _times, passes=("done",)),
    flow("enough_branches", _ANY, _enough, passes=("tell",)),
    flow("a_branch_fails", _LOST, _lost, passes=("tell",)),
)
