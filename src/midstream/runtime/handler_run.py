"""HandlerRun: the run as a handler of `script.py` sees and changes it.

Everything is copied when it is first looked at: a handler may change what it got as it likes, and
one that looks at little costs little.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from midstream.core.data_edits import Edit
from midstream.core.events import ContextChange
from midstream.core.run import Response, Run
from midstream.language.errors import did_you_mean
from midstream.language.names import Json
from midstream.runtime.context import WorkflowContext
from midstream.runtime.json_values import changed_keys, changes_between, copied
from midstream.runtime.ports import HandlerResult
from midstream.system.offloop import call_soon


class ResponseCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the last response."""

    name: str
    arguments: dict[str, Json]


class LastResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The reply that ended the last agent's turn. All is empty before the first.

    `value` is a structured reply, or what the work of a state without an agent came to.
    """

    agent: str = ""
    text: str = ""
    tool_calls: tuple[ResponseCall, ...] = ()
    value: Json = None


class HandlerRun:
    """The run, as a handler sees it. Changes take effect when the handler returns.

    Args:
        run: the run as it stands.
        log: hears the handler's lines, on the loop.
        loop: where `log` is to be called.
    """

    __slots__ = (
        "_changes",
        "_common_data",
        "_contexts",
        "_input",
        "_last_response",
        "_log",
        "_loop",
        "_run",
        "_variables",
    )

    def __init__(
        self,
        run: Run,
        log: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._run = run
        self._log = log
        self._loop = loop
        self._common_data: Json = _UNSEEN
        self._variables: Json = _UNSEEN
        self._input: Json = _UNSEEN
        self._last_response: LastResponse | None = None
        self._contexts: Mapping[str, WorkflowContext] | None = None
        self._changes: list[ContextChange] = []

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self._run.id

    @property
    def state(self) -> str:
        """Return the name of the state."""
        return self._run.visit.state

    @property
    def resume_input(self) -> str | None:
        """Return the words that interrupted the run last, None before any."""
        return self._run.halt.resume_input

    @property
    def interrupted_state(self) -> str | None:
        """Return the state they cut, None before any."""
        return self._run.halt.interrupted_state

    @property
    def input(self) -> Json:
        """Return what the workflow was started with."""
        if self._input is _UNSEEN:
            self._input = copied(self._run.input)
        return self._input

    @property
    def common_data(self) -> dict[str, Json]:
        """Return the run's data: a dict of JSON values, to read and to change."""
        if self._common_data is _UNSEEN:
            self._common_data = copied(self._run.common_data)
        data: dict[str, Json] = self._common_data
        return data

    @common_data.setter
    def common_data(self, data: dict[str, Json]) -> None:
        self._common_data = data

    @property
    def variables(self) -> dict[str, Json]:
        """Return the workflow's variables, to read and to change."""
        if self._variables is _UNSEEN:
            self._variables = copied(self._run.variables)
        data: dict[str, Json] = self._variables
        return data

    @variables.setter
    def variables(self, data: dict[str, Json]) -> None:
        self._variables = data

    @property
    def contexts(self) -> Mapping[str, WorkflowContext]:
        """Return the conversations by name."""
        if self._contexts is None:
            run = self._run
            self._contexts = _Contexts(
                {
                    name: WorkflowContext(spec, run.contexts[name], self._changes)
                    for name, spec in run.plan.contexts.items()
                }
            )
        return self._contexts

    @property
    def last_response(self) -> LastResponse:
        """Return the reply that ended the last agent's turn."""
        if self._last_response is None:
            self._last_response = _last_response(self._run.visit.last_response)
        return self._last_response

    def log(self, text: object) -> None:
        """Show a line to the user, at once. May be called from any thread."""
        try:
            is_on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # a thread beside it
            is_on_loop = False
        if is_on_loop:
            self._log(str(text))
        else:
            call_soon(self._loop, self._log, str(text))

    def result(self, chosen: Json) -> HandlerResult:
        """Return what the handler has changed.

        Raises:
            AuthorMistake: common_data, variables or an added message hold what cannot be kept.
        """
        run, data, variables = self._run, self._common_data, self._variables
        if data is _UNSEEN and variables is _UNSEEN and not self._changes:
            return msgspec.structs.replace(_UNCHANGED, chosen=chosen)
        changed: dict[str, Json] = {}
        removed: tuple[str, ...] = ()
        edits: tuple[Edit, ...] = ()
        if data is not _UNSEEN:
            changed, edits = changes_between("common_data", run.common_data, data)
            removed = tuple(key for key in run.common_data if key not in data)
        return HandlerResult(
            changed=changed,
            removed=removed,
            edits=edits,
            variables={}
            if variables is _UNSEEN
            else changed_keys("variables", run.variables, variables),
            contexts=tuple(self._changes),
            chosen=chosen,
        )


_UNSEEN = object()
_UNCHANGED = HandlerResult()


class _Contexts(dict[str, WorkflowContext]):
    def __missing__(self, name: str) -> WorkflowContext:
        raise KeyError(f"there is no context {name!r}. {did_you_mean(name, self)}")


def _last_response(response: Response | None) -> LastResponse:
    if response is None:
        return LastResponse()
    calls = tuple(
        ResponseCall(name=call.name, arguments=copied(call.arguments)) for call in response.calls
    )
    return LastResponse(
        agent=response.agent,
        text=response.text,
        tool_calls=calls,
        value=copied(response.value),
    )
