"""What a page can ask and do. Each route is thin: the run decides, as it does for the console.

    GET   /  /static/NAME                       the page and its files
    GET   /api/workflows                        what can be started
    GET   /api/runs  /api/runs/events           the list, and what changes in it
    POST  /api/runs                             start
    GET   /api/runs/ID  /api/runs/ID/at/SEQ     how a run stands, or stood after a fact
    GET   /api/runs/ID/events                   its facts as items, text that streams, how it stands
    GET   /api/runs/ID/graph                    its machine
    POST  /api/runs/ID/will                     what Enter would do
    POST  /api/runs/ID/say  answer  approve  halt  stop  withdraw  rename  fork

A page says of each line which questions were on its screen before the first key: `core/routing.py` judges
whose it is, as in the console. Whatever is said carries an id of the page's, so that saying it again says
it once.
"""

import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from midstream.api.engine import Engine
from midstream.api.run_handle import RunHandle
from midstream.core.proposal import Onwards
from midstream.core.question import Question
from midstream.core.routing import (
    Destination,
    Unclear,
    is_command,
    route,
    run_and_question,
    screen_id,
)
from midstream.core.run import Run
from midstream.language.errors import DefinitionDiffers, UserMistake
from midstream.language.names import Json, Policy
from midstream.runtime.engine.open_run import opened
from midstream.runtime.json_values import json_text
from midstream.runtime.ports import Receipt
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.views.graph_layout import MIN_WIDTH
from midstream.views.run_status import (
    asked,
    what_a_line_does,
    what_addressing_does,
    what_enter_does,
)
from midstream.web.shown import clean, data_shown, digest_of, graph_shown, info_shown, run_shown
from midstream.web.watching import Feed, Watching

T = TypeVar("T")

WEB: Final = "web"
"""The source of words that came from a page, for the record."""

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
}
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_RUNS: Final = 200
_GRAPH_CELLS: Final = 44
_MOST_CELLS: Final = 200


class _Conflict(Exception):
    """What was asked does not hold for the run as it is by now; `more` is what the page may choose from."""

    def __init__(self, error: str, hint: str, **more: Any) -> None:
        self.shown = clean({"error": error, "hint": hint, **more})


class _Start(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    workflow: str
    id: str
    input: Json = None


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    text: str
    id: str = ""
    seen: list[str] = []
    focused: str = ""
    policy: Policy | None = None
    said_as: str = msgspec.field(default="", name="as")
    question: str = ""
    workflow: str = ""


class _Answer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    question: str
    value: Json
    id: str


class _Decision(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    question: str
    granted: bool
    digest: str
    for_run: bool = False
    note: str = ""
    mode: Onwards = "ask"


class _Stop(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    reason: str = "stopped in the browser"


class _Withdraw(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    input_id: str


class _Rename(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str


class _Fork(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    at: int | None = None


class _Nothing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Web:
    """The console in a browser, over an engine. `life` ends what it follows."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watching = Watching(engine)
        self._files: dict[str, bytes] | None = None

    def routes(self) -> tuple[Route, ...]:
        """Return its routes; see `server.host.Door`."""
        run = "/api/runs/{id}"
        gets: dict[str, Any] = {
            "/": self._page,
            "/static/{name}": self._static,
            "/api/workflows": self._workflows,
            "/api/runs": self._runs,
            "/api/runs/events": self._list_events,
            run: self._run,
            f"{run}/events": self._events,
            f"{run}/graph": self._graph,
            f"{run}/at/{{seq:int}}": self._past,
        }
        posts: dict[str, Any] = {
            "/api/runs": self._start,
            f"{run}/will": self._about(_Line, self._will),
            f"{run}/say": self._about(_Line, self._say),
            f"{run}/answer": self._about(_Answer, self._answer),
            f"{run}/approve": self._about(_Decision, self._approve),
            f"{run}/halt": self._does(_Nothing, lambda run, _: run.halt()),
            f"{run}/stop": self._does(_Stop, lambda run, asked: run.stop(asked.reason)),
            f"{run}/withdraw": self._does(_Withdraw, lambda run, it: run.withdraw(it.input_id)),
            f"{run}/rename": self._does(_Rename, lambda run, asked: run.rename(asked.name)),
            f"{run}/fork": self._about(_Fork, self._fork),
        }
        return (
            *(Route(path, _told(each), methods=["GET"]) for path, each in gets.items()),
            *(Route(path, _told(each), methods=["POST"]) for path, each in posts.items()),
        )

    @contextlib.asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """Let its streams end with the block."""
        try:
            yield
        finally:
            await self._watching.close()

    # --- the page -------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        return await self._file("index.html")

    async def _static(self, request: Request) -> Response:
        return await self._file(request.path_params["name"])

    async def _file(self, name: str) -> Response:
        """Return a file of the page. Only those that were there at the start are known, by name."""
        if self._files is None:
            self._files = await in_thread(_page_files)
        data = self._files.get(name)
        if data is None:
            raise HTTPException(404, "There is no such file.")
        return Response(data, media_type=_TYPES[name.rpartition(".")[2]])

    # --- what there is ----------------------------------------------------------------------------

    async def _workflows(self, request: Request) -> Response:
        workflows, roles = await self._engine.workflows(), await self._engine.roles()
        start = str(self._engine.controls.start_mode)
        return _json({"workflows": clean(workflows), "roles": list(roles), "start": start})

    async def _runs(self, request: Request) -> Response:
        limit = min(_number(request, "limit", 50), _MOST_RUNS)
        runs = await self._engine.runs(limit=limit, after=request.query_params.get("after") or None)
        return _json({"runs": [info_shown(each) for each in runs]})

    async def _list_events(self, request: Request) -> Response:
        return _events(self._watching.list_stream())

    async def _start(self, request: Request) -> Response:
        asked = await _body(request, _Start)
        workflow = asked.workflow
        if "/" in workflow or workflow.endswith((".json", ".py")) or ".py:" in workflow:
            raise UserMistake(
                "A page starts workflows by their name.", hint="The list has those there are."
            )
        run = await self._engine.start(workflow, asked.input, key=_key(asked.id), source=WEB)
        return _json({"id": run.id})

    # --- a run ------------------------------------------------------------------------------------

    async def _run(self, request: Request) -> Response:
        feed = await self._feed(request)
        return _json(feed.shown() | data_shown(feed.run.run))

    async def _events(self, request: Request) -> Response:
        feed = await self._feed(request)
        had = request.headers.get("last-event-id") or request.query_params.get("since") or "0"
        if not (had.isascii() and had.isdigit() and len(had) < 16):
            raise HTTPException(400, "Last-Event-ID, or since, is the number of a fact.")
        return _events(feed.stream(int(had)))

    async def _past(self, request: Request) -> Response:
        feed = await self._feed(request)
        run = await self._as_it_was(feed, request.path_params["seq"])
        return _json(run_shown(run, feed.info, is_past=True) | data_shown(run))

    async def _graph(self, request: Request) -> Response:
        feed = await self._feed(request)
        at = request.query_params.get("at")
        run = feed.run.run if at is None else await self._as_it_was(feed, _number(request, "at", 0))
        if run.definition is None:
            raise HTTPException(404, "The run has not started.")
        width = max(MIN_WIDTH, min(_number(request, "width", _GRAPH_CELLS), _MOST_CELLS))
        return _json(await in_thread(partial(graph_shown, run, width=width)))

    async def _as_it_was(self, feed: Feed, seq: int) -> Run:
        """Return the run as it was after a fact."""
        last = feed.run.run.seq
        if not 1 <= seq <= last:
            raise UserMistake(
                f"There is no fact {seq} of run {feed.run.id}.", hint=f"The last one is {last}."
            )
        return await opened(self._engine.local.store, feed.run.id, upto=seq)

    # --- words ------------------------------------------------------------------------------------

    async def _will(self, feed: Feed, line: _Line) -> Response:
        return _json(
            {"sentence": sanitized(sentence(line.text, feed.run.run, line.seen, line.focused))}
        )

    async def _say(self, feed: Feed, line: _Line) -> Response:
        id, run = _key(line.id), feed.run.run
        if not line.text.strip():
            raise UserMistake("There are no words.", hint="Type some.")
        if is_command(line.text):
            raise _Conflict(
                "Commands are for the console.", "Begin with // for words that begin with a slash."
            )
        if id in run.inbox.lines:  # it was said, and is not judged anew
            return _receipt(await feed.run.say(line.text, id=id, source=WEB, unasked=True))
        text = line.text[1:] if line.text.startswith("//") else line.text
        to = route(
            text,
            run,
            seen=[screen_id(run.id, each) for each in line.seen],
            focused=screen_id(run.id, line.focused) if line.focused else "",
            answers=screen_id(run.id, line.question) if line.said_as == "answer" else "",
            is_new=line.said_as == "say" or line.policy is not None,
        )
        match to:
            case Destination():
                handle = await self._taken(feed, line.workflow)
                if to.question is not None:
                    receipt = await handle.answer(to.question, to.text, id=id, source=WEB)
                else:
                    words, policy = to.line, line.policy
                    receipt = await handle.say(
                        words, policy=policy, id=id, source=WEB, unasked=True
                    )
                return _receipt(receipt)
            case Unclear(question=asked):
                raise _Conflict(
                    "A question came up while you typed.",
                    "Say whether this is its answer.",
                    choices=["answer", "say"],
                    question=run_and_question(asked)[1],
                )
            case _:
                raise _Conflict(to.reason, "The line is as you typed it.")

    async def _answer(self, feed: Feed, given: _Answer) -> Response:
        value = given.value
        question = _open(feed.run.run, given.question)
        if question is not None and isinstance(value, str):
            # A page has the choices as they can be shown.
            shown = {sanitized(choice): choice for choice in question.choices}
            value = shown.get(value, value)
        handle = await self._taken(feed)
        text = value if isinstance(value, str) else json_text("The answer", value)
        receipt = await handle.answer(given.question, text, id=_key(given.id), source=WEB)
        return _receipt(receipt)

    async def _approve(self, feed: Feed, given: _Decision) -> Response:
        question = _open(feed.run.run, given.question)
        if question is None or question.kind != "approval":
            raise _Conflict("This is decided already.", "Nothing was done with your answer.")
        if digest_of(feed.run.id, question) != given.digest:
            raise _Conflict(
                "What is asked is not what you saw.", "Look at it again, and decide then."
            )
        handle = await self._taken(feed)
        await handle.approve(
            given.question,
            given.granted,
            for_run=given.for_run,
            note=given.note,
            mode=given.mode,
        )
        return _json({})

    async def _fork(self, feed: Feed, asked: _Fork) -> Response:
        forked = await self._engine.fork(feed.run.id, asked.at)
        return _json({"id": forked.id})

    # --- inside -----------------------------------------------------------------------------------

    def _about(self, kind: type[T], answer: Callable[[Feed, T], Awaitable[Response]]) -> Any:
        """Return an endpoint that answers what a page says about a run."""

        async def endpoint(request: Request) -> Response:
            feed = await self._feed(request)
            return await answer(feed, await _body(request, kind))

        return endpoint

    def _does(self, kind: type[T], act: Callable[[RunHandle, T], Awaitable[object]]) -> Any:
        """Return an endpoint that does something with a run."""

        async def answer(feed: Feed, asked: T) -> Response:
            await act(feed.run, asked)
            return _json({})

        return self._about(kind, answer)

    async def _feed(self, request: Request) -> Feed:
        id = request.path_params["id"]
        if _ID.fullmatch(id) is None:
            raise HTTPException(404, "There is no such run.")
        try:
            return await self._watching.feed(id)
        except UserMistake as error:
            raise HTTPException(404, error.what) from error

    async def _taken(self, feed: Feed, workflow: str = "") -> RunHandle:
        """Return a run that can be talked to: one that no process runs goes on here."""
        if feed.run.is_here or feed.run.run.is_over:
            return feed.run
        try:
            choice: Any = workflow if workflow in ("old", "new") else "ask"
            info = await self._engine.info(feed.run.id)
            if info is None or info.is_running:
                return feed.run
            await feed.turn_to(await self._engine.take(feed.run.id, choice=choice))
        except DefinitionDiffers as error:
            raise _Conflict(error.what, error.hint, workflow=["old", "new"]) from error
        return feed.run


def _told(endpoint: Callable[[Request], Awaitable[Response]]) -> Any:
    """Return a route whose conflicts are told with what the page may choose from."""

    async def told(request: Request) -> Response:
        try:
            return await endpoint(request)
        except _Conflict as conflict:
            return _json(conflict.shown, 409)

    return told


def _page_files() -> dict[str, bytes]:
    folder = files("midstream.web") / "page"
    there = folder.iterdir() if folder.is_dir() else ()
    known = (each for each in there if each.name.rpartition(".")[2] in _TYPES)
    return {each.name: each.read_bytes() for each in known}


def sentence(text: str, run: Run, seen: Collection[str] = (), focused: str = "") -> str:
    """Return what Enter would do with a line now, as the bottom line of the console says it."""
    if run.is_over:
        return "It has ended and takes no more words. Time, then Fork, goes on from before."
    does = what_enter_does(run)
    if is_command(text):
        does = "comes back: commands are for the console"
    elif text.strip() and does:
        words = text[1:] if text.startswith("//") else text
        on_screen = [screen_id(run.id, each) for each in seen]
        focus = screen_id(run.id, focused) if focused else ""
        does = what_a_line_does(
            words,
            route(words, run, seen=on_screen, focused=focus),
            numbers={screen_id(run.id, q.id): f"#{q.number}" for q in asked(run)},
            addressees=what_addressing_does(run),
            otherwise=does,
        )
    return f"Enter {does}" if does else "Enter is not accepted now"


def _open(run: Run, id: str) -> Question | None:
    return next((each for each in run.inbox.open_questions if each.id == id), None)


async def _body(request: Request, kind: type[T]) -> T:
    """Return the body of a request, which is JSON of just this shape."""
    data = await request.body()
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"The request cannot be read: {error}.") from None


def _key(id: str) -> str:
    """Return the id of a page for what it says once."""
    if _ID.fullmatch(id) is None:
        raise HTTPException(400, "What is said needs an id: letters, digits, - and _, at most 64.")
    return id


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise HTTPException(400, f"{name} is a number.")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _receipt(receipt: Receipt) -> Response:
    return _json(
        {
            "handling": receipt.handling,
            "input_id": receipt.input_id,
            "reason": sanitized(receipt.reason),
        }
    )


def _events(events: AsyncGenerator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")
