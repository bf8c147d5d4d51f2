"""Workflows written in Python: the same definition as a file, made of functions.

    flow = midstream.Workflow("haiku", input=str)
    poet = flow.agent("poet", system="You write haiku.")
    critic = flow.agent("critic", system="You judge haiku.", sees="user")

    @flow.start(ask=poet, prompt="A haiku about ${input}")
    def write(run):
        run.data["haiku"] = run.reply
        return look

    @flow.state(ask=critic, prompt="${common_data.haiku}", output=Verdict, max_visits=4)
    def look(run):
        return midstream.stop(run.data["haiku"]) if run.result.is_good else write

A state declares its work (one turn of an agent, one call of a tool, a question, a wait, branches, another
workflow), and its function runs once that is done: it reads what came of it, changes the data, and says
where to go. So code never stands in the middle of a state with an effect under way. That is the whole
of durability here: each effect is journaled by itself, a halt cuts an effect and not a function, and
after a crash at most the function of the state at hand runs again, from its beginning, with the very
result it was given before. Nothing is replayed, so nothing can go another way when it is.

What runs is made of it by `Workflow.document`: what would stand in the file. The checker, graphs, pinning
and everything else are the file's.
"""

import hashlib
import inspect
import json
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, overload

import msgspec

from midstream.language import spec
from midstream.language.errors import AuthorMistake
from midstream.language.names import INTERRUPTED, Effort, Json
from midstream.language.spec import Definition, Role
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import Handler
from midstream.runtime.state_functions import Function, State, Stop
from midstream.runtime.typed_values import TYPES, schema_of, typed_value

OUTPUT: Final = "output"
"""Where in `common_data` what `stop(value)` gives is kept."""

_TYPES: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of a workflow. Made by `Workflow.agent`."""

    name: str


class StateRun:
    """The run as a state's function sees it. Its changes take effect when the function returns."""

    def __init__(self, run: HandlerRun, output: Any) -> None:
        self._run = run
        self._output = output

    @property
    def data(self) -> dict[str, Json]:
        """Return the run's data (`common_data`): JSON values, to read and to change."""
        return self._run.common_data

    @property
    def input(self) -> Json:
        """Return what the workflow was started with."""
        return self._run.input

    @property
    def variables(self) -> dict[str, Json]:
        """Return the workflow's variables, to read and to change."""
        return self._run.variables

    @property
    def contexts(self) -> Mapping[str, Any]:
        """Return the conversations by name; see `WorkflowContext`."""
        return self._run.contexts

    @property
    def reply(self) -> str:
        """Return the words of the agent's reply, "" where the state asked none."""
        return self._run.last_response.text

    @property
    def result(self) -> Any:
        """Return what the state's work came to: with `output` a value of that type, else plain JSON.

        Of a question it is the answer, of a tool what it returned, of branches their results by name.
        """
        value = self._run.last_response.value
        if self._output is None or isinstance(self._output, dict):
            return value
        return typed_value(value, self._output)

    @property
    def state(self) -> str:
        """Return the state's name."""
        return self._run.state

    @property
    def interrupted(self) -> str:
        """Return what leads back to where the last unasked words cut the run."""
        return INTERRUPTED

    @property
    def interrupted_state(self) -> str | None:
        """Return the state that was cut, None before any was."""
        return self._run.interrupted_state

    def log(self, text: object) -> None:
        """Show a line to the user, at once."""
        self._run.log(text)


class Workflow:
    """A workflow made of functions. See the module for the shape of it.

    Args:
        name: its name.
        input: the type of its input: `str`, `int`, `float`, `bool`, `list` or `dict`.
        description: what it is for, in a line.
        variables: JSON values by name; a start may override them.
        on_input: what unasked words do: `interrupt`, `steer`, `queue` or `reject`.
        awaits_input: it begins with a line of the user (`start_condition`), not at once.
        budget: what a run may use, such as `{"usd": 1.0}`.
        tools: functions its agents and states may call; see `midstream.tool`.
    """

    def __init__(
        self,
        name: str,
        *,
        input: type | None = None,
        description: str = "",
        variables: Mapping[str, Json] | None = None,
        on_input: Literal["interrupt", "steer", "queue", "reject"] = "interrupt",
        awaits_input: bool = False,
        budget: Mapping[str, Json] | None = None,
        tools: Sequence[Function] = (),
    ) -> None:
        self.name = name
        self.tools = tuple(tools)
        self.roles: dict[str, Role] = {}
        self.inner: dict[str, Workflow] = {}
        self._head: dict[str, Json] = {"workflow_name": name, "on_input": on_input}
        if description:
            self._head["description"] = description
        if input is not None:
            if input not in _TYPES:
                raise AuthorMistake(
                    f"The input of the workflow {name} cannot be {input!r}.",
                    hint="Use str, int, float, bool, list or dict.",
                )
            self._head["input"] = {"name": "input", "type": _TYPES[input]}
        if awaits_input:
            self._head["start_condition"] = "on_user_input"
        if variables:
            self._head["variables"] = dict(variables)
        if budget:
            self._head["budget"] = dict(budget)
        self._agents: dict[str, dict[str, Json]] = {}
        self._contexts: dict[str, dict[str, Json]] = {}
        self._states: dict[str, State] = {}
        self._special: dict[str, str] = {}
        self._outputs: dict[str, Any] = {}

    # --- what it is made of -----------------------------------------------------------------

    def agent(
        self,
        name: str,
        *,
        role: str | None = None,
        system: str | None = None,
        level: Literal["base", "smart", "fast"] = "base",
        effort: Effort | None = None,
        tools: Sequence[str] | None = None,
        context: str = "main",
        max_length: int | None = None,
        sees: Literal["assistant", "user"] = "assistant",
        acp: str | Sequence[str] = "",
    ) -> Agent:
        """Return an agent: a role at work in a conversation that agents of one `context` share.

        Args:
            name: what states and people (`@name words`) call it.
            role: a role of the settings; by default the one of this name, or with `system` a new one.
            system: the system message of a role of its own.
            level: of a role of its own, which of the configured models it asks.
            effort: of a role of its own, how hard that model thinks; None: as it is configured.
            tools: the names of the tools a role of its own may use; None: all.
            context: the name of the conversation.
            max_length: how many characters of that conversation are kept, the latest.
            sees: `user` sees the conversation with its sides swapped.
            acp: makes it an external agent: a preset such as `claude`, or the argv of a program that speaks
                the Agent Client Protocol. It has a role only if one is given.
        """
        if system is not None:
            included = None if tools is None else tuple(tools)
            self.roles[name] = Role(
                level=level, effort=effort, systemMessage=system, includedTools=included
            )
        known = self._contexts.setdefault(context, {"name": context})
        if max_length is not None:
            known["max_length"] = max_length
        spec: dict[str, Json] = {"name": name, "context": context, "role": sees}
        if role or system is not None or not acp:
            spec["agent_role"] = role or name
        if acp:
            spec["acp"] = acp if isinstance(acp, str) else [*acp]
        self._agents[name] = spec
        return Agent(name=name)

    @overload
    def state(self, function: Function, /) -> State: ...

    @overload
    def state(self, function: None = None, /, **work: Any) -> Callable[[Function], State]: ...

    def state(
        self, function: Function | None = None, /, **work: Any
    ) -> State | Callable[[Function], State]:
        """Make a function a state of this workflow, bare or with its work: `@flow.state(ask=poet)`.

        The work is one of these; without any the function is all there is.

        Args:
            function: takes the run (`StateRun`); returns a state, its name, `stop(value)`,
                `run.interrupted`, or None for `next`, else the end.
            work: `ask=` an agent, with `prompt=` (a template such as `"About ${input}"`) and `output=`
                (a dataclass, a msgspec or pydantic model: the reply must fit it);
                `call=` the name of a tool, with `arguments={...}`;
                `question=`, with `choices=[...]` or `output=`, `deadline_s=`, `default=`;
                `wait=` seconds; `parallel=[states]`; `for_each=` a path such as `"common_data.files"`,
                with `do=` a state; `workflow=` a name or a `Workflow`, with `input=`.
                Besides: `next`, `save_as`, `max_visits`, `timeout_s`, `retry`, `catch`, `on_failure`,
                `on_input`, `resume`, `awaits_input`, `join`, `budget`, `description`, as in the file.
        """
        if function is not None:
            return self._add(function, {})
        return lambda function: self._add(function, work)

    @overload
    def start(self, function: Function, /) -> State: ...

    @overload
    def start(self, function: None = None, /, **work: Any) -> Callable[[Function], State]: ...

    def start(
        self, function: Function | None = None, /, **work: Any
    ) -> State | Callable[[Function], State]:
        """Make a function the first state; see `state`."""
        return self._marked("start", function, work)

    @overload
    def resume(self, function: Function, /) -> State: ...

    @overload
    def resume(self, function: None = None, /, **work: Any) -> Callable[[Function], State]: ...

    def resume(
        self, function: Function | None = None, /, **work: Any
    ) -> State | Callable[[Function], State]:
        """Make a function the state unasked words lead to; it takes the run and the words. See `state`."""
        return self._marked("resume", function, work)

    # --- what is made of it -----------------------------------------------------------------

    @property
    def document(self) -> dict[str, Json]:
        """Return what would stand in the file of this workflow."""
        states: list[Json] = []
        for special, name in self._special.items():
            if special != name:
                states.append({"name": special, "next": name})
        for state in self._states.values():
            handler: dict[str, Json] = {"transition_handler": state.name}
            states.append({"name": state.name, **state.spec, **handler})
        states.append({"name": "stop", "input": f"common_data.{OUTPUT}"})
        return {
            **self._head,
            "contexts": [*self._contexts.values()],
            "agents": [*self._agents.values()],
            "states": states,
        }

    @property
    def places(self) -> dict[str, tuple[str, int]]:
        """Return the file and line where each state's function begins, by the state's name."""
        return {name: state.place for name, state in self._states.items()}

    @property
    def handlers(self) -> dict[str, Handler]:
        """Return the functions by the names the document calls them by."""
        return {name: self._handler(state) for name, state in self._states.items()}

    @property
    def digest(self) -> str:
        """Return what a run is pinned to: the SHA-256 of the document and of what every function does."""
        whole = [json.dumps(self.document, sort_keys=True)]
        whole += [state.pin for state in self._states.values()]
        whole += [inner.digest for inner in self.inner.values()]
        return hashlib.sha256("\0".join(whole).encode()).hexdigest()

    def check(self) -> None:
        """Return if every function leads to states of this workflow, as far as its text tells.

        Raises:
            AuthorMistake: one does not; the message lists all of them.
        """
        known = {*self._states, *self._special, "stop", INTERRUPTED}
        wrong = [
            f"{state.name} returns {to}, which is no state of {self.name}."
            for state in self._states.values()
            for to in state.targets()
            if to is not None and to not in known
        ]
        if wrong:
            raise AuthorMistake(
                "\n".join(wrong), hint="Return a state, stop(value), run.interrupted, or None."
            )

    def graph(self, format: Literal["text", "mermaid", "dot", "svg"] = "text") -> str:
        """Return a picture of the workflow.

        Args:
            format: text for a terminal, or the text of a Mermaid, DOT or SVG file.
        """
        from midstream.views.graph import graph_of
        from midstream.views.graph_painters import dot, drawing, mermaid, svg

        paint = {"text": drawing, "mermaid": mermaid, "dot": dot, "svg": svg}[format]
        return paint(graph_of(self.definition))

    @property
    def definition(self) -> Definition:
        """Return what is drawn: no roles, no tools, and a script that says where each function leads."""
        document = msgspec.convert(self.document, spec.Workflow)
        inner = {name: each.definition for name, each in self.inner.items()}
        outline = "\n".join(state.outline() for state in self._states.values())
        return Definition(workflow=document, roles={}, script=outline, workflows=inner)

    # --- inside -----------------------------------------------------------------------------

    def _marked(
        self, special: str, function: Function | None, work: dict[str, Any]
    ) -> State | Callable[[Function], State]:
        def add(function: Function) -> State:
            if special in self._special:
                raise AuthorMistake(
                    f"The workflow {self.name} has two states for {special}: "
                    f"{self._special[special]} and {function.__name__}.",
                    hint="Mark one of them with @flow.state.",
                )
            state = self._add(function, work)
            self._special[special] = state.name
            return state

        return add if function is None else add(function)

    def _add(self, function: Function, work: dict[str, Any]) -> State:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise AuthorMistake(
                f"A state of {self.name} is made of {function!r}, which is no function.",
                hint="Define a function that takes the run, and call what you have there.",
            )
        name = function.__name__
        if name in self._states or name == "stop":
            raise AuthorMistake(
                f"The workflow {self.name} has a state {name} already.",
                hint="A state is called as its function: give that another name.",
            )
        state = State(name, function, self._spec(name, dict(work)))
        self._states[name] = state
        return state

    def _spec(self, name: str, work: dict[str, Any]) -> dict[str, Json]:
        """Return a state's keys as they stand in a file."""
        keys: dict[str, Any] = {}
        output = work.pop("output", None)
        if (agent := work.pop("ask", None)) is not None:
            keys["agent"] = agent.name if isinstance(agent, Agent) else agent
            if output is not None:
                keys["output_schema"] = _schema_of(output)
        if (question := work.pop("question", None)) is not None:
            ask = {"question": question}
            for key in ("choices", "deadline_s", "default", "on_timeout", "to"):
                if key in work:
                    ask[key] = work.pop(key)
            if "default" in ask:
                ask.setdefault("on_timeout", "default")
            if output is not None:
                ask["schema"] = _schema_of(output)
            keys["ask"] = ask
        if (tool := work.pop("call", None)) is not None:
            keys["tool"] = tool
        if (items := work.pop("for_each", None)) is not None:
            keys["for_each"] = {"items": items, **_branch(work.pop("do", None))}
            if "max_concurrency" in work:
                keys["for_each"]["max_concurrency"] = work.pop("max_concurrency")
        if (states := work.pop("parallel", None)) is not None:
            keys["parallel"] = [{"name": _name_of(each), **_branch(each)} for each in states]
        if isinstance(inner := work.get("workflow"), Workflow):
            self._run(inner)
            work["workflow"] = inner.name
        if "workflow" in work and "input" in work:
            keys["workflow"] = {"name": work.pop("workflow"), "input": work.pop("input")}
        for key in ("next", "on_failure", "resume"):
            if key in work:
                work[key] = _name_of(work[key])
        if output is not None:
            self._outputs[name] = output
        return {**keys, **work}

    def _run(self, inner: "Workflow") -> None:
        """Take in a workflow that a state runs.

        Raises:
            AuthorMistake: it runs this one, or another one of its name is run already.
        """
        if inner.runs(self):
            raise AuthorMistake(
                f"The workflows {self.name} and {inner.name} run each other without end.",
                hint="Take one of these calls out.",
            )
        if self.inner.setdefault(inner.name, inner) is not inner:
            raise AuthorMistake(
                f"The workflow {self.name} runs two that are called {inner.name}.",
                hint="Give one of them another name.",
            )

    def runs(self, other: "Workflow") -> bool:
        """Return whether it is the other one, or runs it, however deep."""
        return self is other or any(each.runs(other) for each in self.inner.values())

    def _handler(self, state: State) -> Handler:
        takes_words = self._special.get("resume") == state.name and state.takes_words
        output = self._outputs.get(state.name)
        goes_nowhere = not {"next", "transitions"} & state.spec.keys()

        def leaving(run: HandlerRun, chosen: Any) -> Json:
            if isinstance(chosen, Stop):
                run.common_data[OUTPUT] = _plain(state.name, chosen.output)
                return "stop"
            if chosen == "stop" or (chosen is None and goes_nowhere):
                run.common_data[OUTPUT] = run.last_response.value
            return _name_of(chosen) if isinstance(chosen, State) else chosen

        def arguments(run: HandlerRun) -> tuple[Any, ...]:
            view = StateRun(run, output)
            return (view, run.resume_input) if takes_words else (view,)

        async def ended(run: HandlerRun, ending: Awaitable[Any]) -> Json:
            return leaving(run, await ending)

        def called(run: HandlerRun) -> Any:
            chosen = state.function(*arguments(run))
            return ended(run, chosen) if inspect.isawaitable(chosen) else leaving(run, chosen)

        async def awaited(run: HandlerRun) -> Json:
            return await called(run)

        # One that is async behind a plain decorator shows that only once it is called.
        return awaited if inspect.iscoroutinefunction(state.function) else called


def _name_of(state: Any) -> Any:
    return state.name if isinstance(state, State) else state


def _branch(state: Any) -> dict[str, Json]:
    """Return a branch that begins at a state; its result is its output."""
    return {"state": _name_of(state), "output": f"common_data.{OUTPUT}"}


# --- types and JSON -----------------------------------------------------------------------------


def _schema_of(output: Any) -> dict[str, Json]:
    try:
        return schema_of(output)
    except TypeError as error:
        raise AuthorMistake(f"{output!r} cannot be an output: {error}.", hint=TYPES) from error


def _plain(state: str, value: Any) -> Json:
    """Return what a state's function gave to `stop` as JSON: models, too, those of pydantic included.

    Raises:
        AuthorMistake: something in it is none.
    """

    def dumped(value: Any) -> Json:
        if hasattr(value, "model_dump") and not isinstance(value, type):
            model: Json = value.model_dump(mode="json")
            return model
        shown = f"{reprlib.repr(value)} ({type(value).__name__})"
        raise AuthorMistake(
            f"What {state} gives to stop(...) holds {shown}, which is no JSON value.", hint=_OUTPUTS
        )

    try:
        plain: Json = msgspec.to_builtins(value, enc_hook=dumped)
    except RecursionError as error:
        raise AuthorMistake(
            f"What {state} gives to stop(...) is nested too deep, or holds itself.", hint=_OUTPUTS
        ) from error
    return plain


_OUTPUTS: Final = "Give it JSON values, dataclasses, or msgspec or pydantic models."
