"""Workflows of any shape, or with one thing wrong, for tests of what the validator promises.

Every name, template and expression is drawn from a few that are right, odd ones among them. One of them,
wherever it stands, may be replaced by one that is not: a validator that overlooks it has taken the
workflow.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from midstream.language import spec
from midstream.language.names import Json
from midstream.language.spec import ParsingTool, Role

State = dict[str, Any]
Names = tuple[str, ...]

OUTER = ("start", "a", "b-2", "c d", "é")
OWN = (("one0", "one1"), ("start", "resume"), ("a", "x.y"))
KEYS = ("one", "two", "many")
HANDLERS = {"touch": 1, "tell": 4, "choose": 8}
ROLES = {"worker": Role(), "judge": Role(parsingTools=(ParsingTool(name="verdict"),))}
TOOLS = ("look", "record", "deploy")
AGENTS = ("worker", "judge", "critic")

TEMPLATES = (
    "Go on.",
    "",
    "${input}",
    "${common_data.one}",
    "${common_data.two?none} and ${visits.HERE}",
    "${common_data.many}",
    "${last_response?}",
    "${last.text} ${variables.list}",
    "$${input} $${ } 5$ {} ${variables.odd key?${}",
    "${resume_input?} ${variables.list.1}",
)
CONDITIONS = (
    "visits.HERE < 3",
    "visits.HERE >= 2",
    "common_data.one == 'x'",
    "'x' in last.text",
    "len(variables.list) > 1 and not common_data.two",
    "last.arguments.ok or input == 1",
    "matches(last.text, 'a+')",
    "lower(variables['odd key']) != 'é'",
    "last.value == [] or any(variables.list)",
    "True",
)
WRONG: dict[str, tuple[Json, ...]] = {
    "target": ("nowhere",),
    "tool": ("lok",),
    "agent": ("wroker",),
    "role": ("jugde",),
    "handler": ("tuch",),
    "template": (
        "${",
        "${input",
        "${comon_data.one}",
        "${common_data.}",
        "${variables.no}",
        "${input?${common_data.one}}",
    ),
    "condition": ("1 +", "foo.bar", "visits.nobody > 1", "__import__('os')", "last.txt"),
    "items": ("in", "variables.no", "variables.odd key"),
    "workflow": ("iner",),
    "context": ("dsk",),
    "time": ("soon", "2024-02-30T00:00:00Z", "2024-01-01"),
    "path": ("", "common_data.", "many..deep"),
    "result": ("outpt", "output..x"),
}
"""What is wrong, by what should stand there."""

OF_KEYS = {
    **dict.fromkeys(("to", "next", "resume", "on_failure", "state"), "target"),
    **dict.fromkeys(("pre_handler", "post_handler", "transition_handler"), "handler"),
    **dict.fromkeys(("prompt", "ask", "question", "key"), "template"),
    "tool": "tool",
    "agent": "agent",
    "agent_role": "role",
    "context": "context",
    "when": "condition",
    "items": "items",
    "until": "time",
    "save_as": "path",
    "workflow": "workflow",
}
KINDS = (
    *("any", "model", "tool", "handler", "output", "template", "timeout", "deadline"),
    *("denied", "budget", "max_visits", "branch", "workflow"),
)
WORK = ("agent", "tool", "ask", "wait", "none", "parallel", "named", "for_each", "workflow")
"""The kinds of work a state may have; `named` are branches that are states of the workflow."""

OF_WORK = {*WORK, "prompt", "arguments"}

SCHEMAS: tuple[tuple[Json, Json], ...] = (
    ({"type": "array"}, []),
    (
        {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        {"ok": True},
    ),
    ({"enum": [1, "one", None]}, "one"),
)
"""Schemas, each with what fits it."""

NULLS = {field.name for field in msgspec.structs.fields(spec.State) if field.default is None} - {
    "on_input"  # of a workflow it may not be
}


def maybe(
    draw: st.DrawFn, state: State, key: str, values: st.SearchStrategy[Any], *, one_in: int = 4
) -> None:
    """Give a state a key in one of so many cases; now and then it says nothing."""
    number = draw(st.integers(0, 39))
    if number < 40 // one_in:
        state[key] = draw(values)
    elif key in NULLS and number == 39:
        state[key] = None


def texts(right: Names, names: Names) -> st.SearchStrategy[str]:
    """Return one of some templates or expressions, about one of these states where it is about one."""
    plain = [name for name in names if name.isidentifier()]
    about = st.sampled_from(plain or ["start"])
    return st.builds(lambda text, name: text.replace("HERE", name), st.sampled_from(right), about)


handlers = st.sampled_from(tuple(HANDLERS))
saved = st.sampled_from([*KEYS, "common_data.one", "many.deep", "odd key"])
seconds = st.sampled_from([1, 30.5, 0.001])
pauses = st.sampled_from([0, 1, 30.5])
policies = st.sampled_from(["interrupt", "queue", "steer", "reject"])
times = st.sampled_from(["2024-01-01T00:00:00Z", "2024-02-29t12:30:00.5+14:00", "${variables.at}"])
schemas = st.sampled_from([schema for schema, _ in SCHEMAS])
budgets = st.sampled_from(
    [
        *({"tool_calls": 2, "tokens": 1000}, {"usd": 0.01}, {"tool_calls": 0}),
        *({"tokens": 5, "usd": 9}, {"transitions": 40, "minutes": 0.5}),
    ]
)


@st.composite
def works(draw: st.DrawFn, names: Names, depth: int, agents: Names, kind: str = "") -> State:
    """Draw what a state does; the kind of work may be given."""
    templates = texts(TEMPLATES, names)
    kind = kind or draw(
        st.sampled_from(
            ["agent", "agent", "agent", "tool", "ask", "ask", "wait", "none"]
            + ["parallel", "for_each", "for_each", "workflow"] * (depth > 0)
        )
    )
    state: State = {}
    match kind:
        case "agent":
            state["agent"] = draw(st.sampled_from(agents))
            maybe(draw, state, "prompt", templates)
            maybe(draw, state, "on_failure", st.sampled_from((*names, "stop")))
            maybe(draw, state, "output_schema", schemas)
            maybe(draw, state, "awaits_input", st.booleans())
        case "tool":
            state["tool"] = draw(st.sampled_from(TOOLS))
            state["arguments"] = {"key": draw(templates)}
        case "ask":
            state["ask"] = draw(asks(names))
        case "wait":
            until = st.builds(lambda time: {"until": time}, times)
            for_so_long = st.builds(lambda count: {"seconds": count}, pauses)
            state["wait"] = draw(st.one_of(pauses, for_so_long, until, until))
        case "parallel" | "named":
            is_named = kind == "named" or draw(st.integers(0, 3)) == 0
            state["parallel"] = draw(branches(names, depth - 1, agents, is_named))
            count = len(state["parallel"])
            maybe(draw, state, "join", st.sampled_from(["all", "any", 1, count]))
        case "for_each":
            state["for_each"] = {
                **draw(branch(names, depth - 1, agents)),
                "items": draw(st.sampled_from(("variables.list", "input", "common_data.many"))),
            }
            maybe(draw, state["for_each"], "max_concurrency", st.integers(1, 3), one_in=2)
            maybe(draw, state, "join", st.sampled_from(["any", 2]))
        case "workflow":
            state["workflow"] = draw(subs(names))
        case _:
            pass
    if kind not in ("wait", "none"):
        maybe(draw, state, "save_as", saved)
    return state


@st.composite
def asks(draw: st.DrawFn, names: Names) -> Json:
    """Draw a question a state asks."""
    templates = texts(TEMPLATES, names)
    if draw(st.integers(0, 3)) == 0:
        return draw(templates)
    ask: State = {"question": draw(templates)}
    default: Json = "x"
    if draw(st.booleans()):
        ask["deadline_s"] = draw(seconds)
    if draw(st.booleans()):
        ask["choices"] = ["x", draw(templates)]
    elif draw(st.booleans()):
        ask["schema"], default = draw(st.sampled_from(SCHEMAS))
    then = draw(st.sampled_from(["default", "goto", "fail", "wait"]))
    ask["on_timeout"] = then
    if then == "default" or draw(st.integers(0, 3)) == 0:
        ask["default"] = default
    if then == "goto":
        ask["to"] = draw(st.sampled_from((*names, "stop")))
    return ask


@st.composite
def subs(draw: st.DrawFn, names: Names) -> Json:
    """Draw how a sub-workflow is run."""
    if draw(st.integers(0, 3)) == 0:
        return "inner"
    inner: State = {"name": "inner"}
    templates = texts(TEMPLATES, names)
    maybe(
        draw, inner, "input", st.one_of(templates, st.just({"deep": ["${input}", None]})), one_in=2
    )
    maybe(draw, inner, "variables", st.builds(lambda text: {"how": text}, templates), one_in=2)
    parts = st.sampled_from(["output", "output.a.b", "common_data.sure", "last_response"])
    maybe(draw, inner, "output", st.dictionaries(saved, parts, min_size=1, max_size=2), one_in=2)
    return inner


@st.composite
def branches(
    draw: st.DrawFn, names: Names, depth: int, agents: Names, is_named: bool
) -> list[Json]:
    """Draw the branches of a state: names of states, or branches of their own."""
    by_name = [name for name in names[1:] or names if " " not in name]
    if is_named:
        listed = st.lists(st.sampled_from(by_name), min_size=1, max_size=3, unique=True)
        return [*draw(listed)]
    found = draw(st.lists(branch(names, depth, agents), min_size=1, max_size=3))
    for number, each in enumerate(found):
        each["name"] = f"b{number}"
    return [*found]


@st.composite
def branch(draw: st.DrawFn, names: Names, depth: int, agents: Names) -> State:
    """Draw a branch: one that begins at a state of the workflow, or with states of its own."""
    more: State = {}
    shared = st.lists(st.sampled_from(("desk", "side")), min_size=1, max_size=2)
    maybe(draw, more, "shared", shared, one_in=2)
    outputs = ["common_data.one", "last_response", "input", "variables.list"]
    maybe(draw, more, "output", st.sampled_from(outputs), one_in=2)
    maybe(draw, more, "worktree", st.booleans())
    if draw(st.integers(0, 2)) == 0:
        return {"state": draw(st.sampled_from(names[1:] or names)), **more}
    if draw(st.integers(0, 3)) == 0:
        more["contexts"] = [{"name": "nook"}]
        agents = (*AGENTS, "guest")
    own = draw(st.sampled_from(OWN))[: draw(st.integers(1, 2))]
    listed: list[State] = [{"name": name, **draw(states(own, depth, agents))} for name in own]
    if draw(st.integers(0, 3)) == 0:
        listed.append({"name": "stop", "description": "All that is left."})
    return {"states": listed, **more}


@st.composite
def states(
    draw: st.DrawFn, names: Names, depth: int, agents: Names = AGENTS, kind: str = ""
) -> State:
    """Draw everything of a state but its name."""
    state = draw(works(names, depth, agents, kind))
    conditions = texts(CONDITIONS, names)
    targets = st.sampled_from((*names, "stop", "stop"))
    for slot in ("pre_handler", "post_handler"):
        maybe(draw, state, slot, handlers)
    if draw(st.integers(0, 7)) == 0:
        state["transition_handler"] = draw(st.sampled_from(("choose",)))
    if draw(st.booleans()):
        listed: list[State] = [
            {"when": draw(conditions), "to": draw(targets)} for _ in range(draw(st.integers(0, 2)))
        ]
        if draw(st.booleans()) or not listed:
            listed.append({"to": draw(targets)})
        state["transitions"] = listed
    else:
        maybe(draw, state, "next", targets)
    maybe(draw, state, "timeout_s", seconds)
    maybe(draw, state, "max_visits", st.integers(1, 3))
    if draw(st.integers(0, 4)) == 0:
        state["retry"] = {"max_attempts": draw(st.integers(1, 3))}
        maybe(draw, state["retry"], "backoff_s", pauses)
        maybe(draw, state["retry"], "on", st.lists(st.sampled_from(KINDS), max_size=2))
    if draw(st.integers(0, 2)) == 0:
        catch: State = {"to": draw(targets)}
        maybe(draw, catch, "on", st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
        maybe(draw, catch, "save_as", saved)
        state["catch"] = [catch]
    maybe(draw, state, "budget", budgets)
    maybe(draw, state, "resume", targets)
    maybe(draw, state, "on_input", policies)
    maybe(draw, state, "description", st.just("${ is nothing here"))
    return state


@st.composite
def workflows(draw: st.DrawFn, kind: str, *, is_wrong: bool) -> dict[str, Json]:
    """Draw a workflow file, as data. Its `start` does work of a kind; there something may be wrong."""
    names = OUTER[: draw(st.integers(1, 2 if is_wrong else len(OUTER)))]
    listed: list[State] = [
        {"name": name, **draw(states(names, 2, kind="" if number else kind))}
        for number, name in enumerate(names)
    ]
    if draw(st.booleans()):
        after = draw(st.sampled_from(["$interrupted", "start", "stop"]))
        listed.append({"name": "resume", "agent": "worker", "next": after})
    stop: State = {"name": "stop"}
    maybe(draw, stop, "input", st.sampled_from(["common_data.one", "last_response"]))
    more: State = {}
    maybe(draw, more, "description", st.just("Anything."))
    maybe(draw, more, "budget", budgets)
    maybe(draw, more, "on_input", policies)
    maybe(draw, more, "output", st.just({"name": "all", "type": "object", "description": "It."}))
    maybe(draw, more, "start_condition", st.sampled_from(["immediate", "on_user_input"]))
    said = [{"role": role, "content": "${"} for role in ("system", "user", "assistant")]
    data: dict[str, Json] = {
        **more,
        "workflow_name": "random",
        "input": {"name": "items", "type": "array", "description": "Two of them."},
        "variables": {"list": ["x", "yy", 3], "odd key": "É", "at": "2024-01-01T00:00:00Z"},
        "contexts": [
            {"name": "desk", "starting_messages": draw(st.sampled_from([[], said]))},
            {"name": "side", "max_length": draw(st.sampled_from([1, 400]))},
        ],
        "agents": [
            {"agent_role": "worker", "context": "desk"},
            {"agent_role": "judge", "context": "desk", "role": "user"},
            {
                "agent_role": "worker",
                "name": "critic",
                "context": "side",
                "acp": ["agent", "--acp"],
            },
            *[{"agent_role": "judge", "name": "guest", "context": "nook"}] * _has_nook(listed),
        ],
        "states": [*listed, stop],
    }
    if is_wrong:
        work = {key: part for key, part in listed[0].items() if key in OF_WORK}
        places = list(spots(work)) if draw(st.booleans()) else []
        places = places or [*spots(listed[:1]), *spots(data["agents"])]
        found = draw(st.sampled_from(sorted({place[0] for place in places})))
        pairs = [(p, value) for p in places if p[0] == found for value in WRONG[found]]
        (_, holder, key), value = pairs[draw(st.integers(0, len(pairs) - 1))]
        holder[key] = value
    return data


def _has_nook(data: Json) -> bool:
    inside = data.values() if isinstance(data, dict) else data
    is_it = isinstance(data, dict) and data.get("name") == "nook"
    return is_it or any(_has_nook(each) for each in inside if isinstance(each, dict | list))


def spots(data: Json) -> Iterator[tuple[str, Any, Any]]:
    """Yield every place where something wrong could stand: what should, what holds it, its key."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, str) and key in OF_KEYS:
            yield OF_KEYS[key], data, key
        elif key == "shared" and value:
            yield "context", value, 0
        elif key == "parallel" and isinstance(value[0], str):
            yield "target", value, 0
        elif key == "output" and isinstance(value, dict):
            yield from (("result", value, part) for part in value)
        elif isinstance(value, dict | list):
            if key == "workflow":
                yield "workflow", value, "name"
            if key == "variables":
                yield from (("template", value, part) for part in value)
            if key == "choices":
                yield "template", value, len(value) - 1
            yield from spots(value)


INNER: dict[str, Json] = {
    "workflow_name": "inner",
    "variables": {"how": ""},
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "worker", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "worker", "prompt": "${input?nothing}", "next": "both"},
        {"name": "both", "parallel": ["sure", "work"], "save_as": "sure", "next": "stop"},
        {"name": "sure", "ask": "Sure?", "save_as": "said", "next": "stop"},
        {"name": "work", "tool": "record", "arguments": {"key": "1"}, "next": "stop"},
        {"name": "resume", "agent": "worker", "next": "$interrupted"},
        {"name": "stop", "input": "common_data.sure"},
    ],
}
"""The one sub-workflow there is."""


# --- what a workflow has ------------------------------------------------------------------------

_PARTS: dict[tuple[type, str], type] = {
    (spec.Workflow, "states"): spec.State,
    (spec.Workflow, "contexts"): spec.Context,
    (spec.Workflow, "agents"): spec.Agent,
    (spec.Workflow, "input"): spec.Input,
    (spec.Workflow, "output"): spec.Output,
    (spec.Workflow, "budget"): spec.Budget,
    (spec.Context, "starting_messages"): spec.StartingMessage,
    (spec.State, "ask"): spec.Ask,
    (spec.State, "wait"): spec.Wait,
    (spec.State, "parallel"): spec.Branch,
    (spec.State, "for_each"): spec.ForEach,
    (spec.State, "workflow"): spec.SubWorkflow,
    (spec.State, "transitions"): spec.Transition,
    (spec.State, "retry"): spec.Retry,
    (spec.State, "catch"): spec.Catch,
    (spec.State, "budget"): spec.Budget,
    (spec.Branch, "states"): spec.State,
    (spec.Branch, "contexts"): spec.Context,
    (spec.ForEach, "states"): spec.State,
    (spec.ForEach, "contexts"): spec.Context,
}

SHORT = {"State.ask: str", "State.wait: number", "State.parallel: str", "State.workflow: str"}
"""What may be written as less than an object."""


def every_key() -> set[str]:
    """Return every key a workflow file may have, such as `State.next`, and the short forms."""
    kinds = {spec.Workflow, *_PARTS.values()}
    keys = {f"{k.__name__}.{f.name}" for k in kinds for f in msgspec.structs.fields(k)}
    return keys | SHORT


def keys_of(data: Json, kind: type = spec.Workflow) -> Iterator[str]:
    """Yield the keys that a workflow says something with, and the short forms it uses."""
    for key, value in data.items():
        if value is None:
            continue
        name = f"{kind.__name__}.{key}"
        yield name
        part = _PARTS.get((kind, key))
        for each in value if isinstance(value, list) else [value]:
            if part is not None and isinstance(each, dict):
                yield from keys_of(each, part)
            elif part is not None:
                yield f"{name}: {'str' if isinstance(each, str) else 'number'}"
