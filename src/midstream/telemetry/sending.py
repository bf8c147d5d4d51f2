"""To a collector: where it is, by the standard variables, and one request by OTLP/HTTP with protobuf."""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

import msgspec

from midstream._version import __version__
from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.ports import Clock
from midstream.runtime.storage import Store
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor
from midstream.telemetry import otlp
from midstream.telemetry.figures import Attributes
from midstream.telemetry.spans import Fork, Trace

if TYPE_CHECKING:
    import httpx2

Signal = Literal["traces", "metrics"]

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
LOCAL: Final = "http://localhost:4318"
CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

MAX_SPANS: Final = 512
MAX_BYTES: Final = 2_000_000
"""What one request holds at most."""

PATIENCE_S: Final = 30.0
"""How long a collector that has no room is tried again, where a person waits for the export."""

MOST_S: Final = 60.0
"""The longest wait before the next try, whatever the collector says."""

_AGAIN: Final = (429, 502, 503, 504)

_NOT_THERE: Final = (404, 405, 501)
"""What collectors of traces alone, such as Phoenix and Jaeger, answer to metrics."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where traces and metrics go ("" for one: it does not), how, and in whose name.

    `content`: words, arguments and results are told, too.
    """

    traces: str
    metrics: str
    headers: dict[str, dict[str, str]]
    resource: Attributes
    timeout_s: float = 10.0
    is_zipped: bool = False
    content: bool = False


def destination(
    environ: Mapping[str, str], *, url: str = "", content: bool = False
) -> Destination | None:
    """Return where to send to: `url` before what the variables say; None where they say nowhere.

    Raises:
        UserMistake: it is no address, or another protocol is asked for.
    """
    said = environ.get
    if said("OTEL_SDK_DISABLED", "").strip().lower() == "true" and not url:
        return None
    places: dict[str, str] = {}
    headers: dict[str, dict[str, str]] = {}
    for signal in ("traces", "metrics"):
        own = signal.upper()
        off = said(f"OTEL_{own}_EXPORTER", "otlp").strip().lower() == "none" and not url
        base = (url or said(ENDPOINT) or LOCAL).rstrip("/").removesuffix("/v1/traces")
        place = (
            "" if url else said(f"OTEL_EXPORTER_OTLP_{own}_ENDPOINT", "")
        ) or f"{base}/v1/{signal}"
        places[signal] = "" if off else _address(place)
        given = said(f"OTEL_EXPORTER_OTLP_{own}_HEADERS") or said("OTEL_EXPORTER_OTLP_HEADERS", "")
        headers[signal] = _pairs(given)
        protocol = said(f"OTEL_EXPORTER_OTLP_{own}_PROTOCOL") or said("OTEL_EXPORTER_OTLP_PROTOCOL")
        if protocol not in (None, "", "http/protobuf") and not (url or off):
            raise UserMistake(
                f"Traces are not sent by {protocol[:40]!r}: OTEL_EXPORTER_OTLP_PROTOCOL asks for it.",
                hint="Set it to http/protobuf; collectors listen for that at port 4318.",
            )
    if not any(places.values()):
        return None
    captures = said(CAPTURE, "").strip().lower() in ("true", "span_only", "span_and_event")
    service = said("OTEL_SERVICE_NAME")
    named: Attributes = {"service.name": "midstream", "service.version": __version__}
    named |= _pairs(said("OTEL_RESOURCE_ATTRIBUTES", ""))
    return Destination(
        traces=places["traces"],
        metrics=places["metrics"],
        headers=headers,
        resource=named | ({"service.name": service} if service else {}),
        timeout_s=_seconds(said("OTEL_EXPORTER_OTLP_TIMEOUT", "")),
        is_zipped=said("OTEL_EXPORTER_OTLP_COMPRESSION", "").strip() == "gzip",
        content=content or captures,
    )


def _address(text: str) -> str:
    if not re.match(r"https?://[^\s/?#]+[^\s?#]*\Z", text):
        raise UserMistake(
            f"{text[:200]!r} is no address of a collector.",
            hint=f"Such as {LOCAL}, where collectors listen for OTLP over HTTP.",
        )
    return text


def _pairs(text: str) -> dict[str, str]:
    """Return `key=value` pairs, as the variables have them: with commas between, percent-encoded."""
    split = (pair.partition("=") for pair in text.split(","))
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in split if key.strip()}


def _seconds(milliseconds: str) -> float:
    return max(int(milliseconds), 1) / 1000 if milliseconds.strip().isdecimal() else 10.0


# --- one request --------------------------------------------------------------------------------


class NotTaken(WorldTrouble):
    """A collector did not take what it was sent.

    `again_s`: in so many seconds it may; None: it never will. `is_there`: it answered.
    """

    def __init__(
        self, what: str, *, hint: str, again_s: float | None, is_there: bool = True
    ) -> None:
        super().__init__(what, hint=hint)
        self.again_s = again_s
        self.is_there = is_there


class Collector:
    """The other side. Give it back with `aclose`.

    `takes_metrics`: it has not said that it takes traces alone.
    """

    def __init__(self, to: Destination) -> None:
        self.to = to
        self.takes_metrics = True
        self._resource = otlp.resource(to.resource)
        self._http: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        """Hang up."""
        if self._http is not None:
            await self._http.aclose()

    async def send(self, signal: Signal, items: Iterable[bytes]) -> None:
        """Send spans or metrics, as `otlp` writes them; no metrics to one that takes traces alone.

        Raises:
            NotTaken: it is not there, too slow, or refuses.
        """
        url = self.to.traces if signal == "traces" else self.to.metrics
        if not url or (signal == "metrics" and not self.takes_metrics):
            return
        body = await in_thread(partial(self._body, items))
        answer = await self._posted(url, body, self.to.headers[signal])
        place, code = without_password(url), answer.status_code
        if code in _AGAIN:
            wait_s = _wait_of(answer.headers.get("retry-after", ""), answer.headers.get("date", ""))
            raise NotTaken(
                f"{place} has no room now: it answered {code}.", hint=_LATER, again_s=wait_s
            )
        if signal == "metrics" and self.to.traces and code in _NOT_THERE:
            self.takes_metrics = False
            return
        if not 200 <= code < 300:
            raise NotTaken(
                f"{place} does not take {signal}: it answered {code}.",
                hint="Look at its address, and at OTEL_EXPORTER_OTLP_HEADERS if it wants a key.",
                again_s=None,
            )
        if (lost := otlp.rejected(answer.content)) > 0:
            raise NotTaken(
                f"{place} refused {lost:,} of what it was sent.",
                hint="Its own log says why.",
                again_s=None,
            )

    def _body(self, items: Iterable[bytes]) -> bytes:
        body = otlp.request(self._resource, __version__, items)
        return gzip.compress(body, 6) if self.to.is_zipped else body

    async def _posted(self, url: str, body: bytes, own: dict[str, str]) -> "httpx2.Response":
        if self._http is None:
            self._http = await in_thread(partial(_client, self.to))
        import httpx2

        headers = {**own, "content-type": "application/x-protobuf"}
        if self.to.is_zipped:
            headers["content-encoding"] = "gzip"
        try:
            return await self._http.post(url, content=body, headers=headers)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OSError,
            ValueError,
        ) as error:
            raise NotTaken(
                f"{without_password(url)} cannot be reached ({type(error).__name__}).",
                hint=f"Start the collector. {_LATER}",
                again_s=0.0,
                is_there=False,
            ) from error


_LATER: Final = "midstream export RUN --otlp sends a run later."


def _client(to: Destination) -> "httpx2.AsyncClient":
    import httpx2  # and, where they are needed, its certificates: a while, off the loop

    is_safe = any(url.startswith("https:") for url in (to.traces, to.metrics))
    return httpx2.AsyncClient(timeout=to.timeout_s, follow_redirects=False, verify=is_safe)


def without_password(url: str) -> str:
    """Return an address as it may be shown."""
    return re.sub(r"//[^/@]*@", "//", url)


def _wait_of(said: str, date: str) -> float:
    """Return the seconds of a `Retry-After`, which may be a date; 0 where nothing is said."""
    if said.strip().isdecimal():
        return min(float(said), MOST_S)
    try:
        ahead = parsedate_to_datetime(said) - parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return 0.0
    return min(max(ahead.total_seconds(), 0.0), MOST_S)


def batches(spans: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield spans in such groups as one request may hold."""
    batch: list[bytes] = []
    size = 0
    for span in spans:
        if batch and (len(batch) >= MAX_SPANS or size + len(span) > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += len(span)
    if batch:
        yield batch


# --- a run of the store -------------------------------------------------------------------------


async def fresh_trace(store: Store, id: str, *, content: bool) -> Trace:
    """Return the trace of a run before its first fact."""
    line = await store.lineage(id)
    fork = None
    if line and line[0].parent:
        root = line[1].parent_seq if len(line) > 1 and line[1].parent else 1
        fork = Fork(line[0].parent, line[0].parent_seq, root)
    return Trace(id, own_redactor(), fork=fork, content=content)


def ended_spans(
    trace: Trace, facts: Iterable[Envelope]
) -> tuple[list[tuple[int, bytes]], list[bytes]]:
    """Return the spans that end with more facts of a trace, each with its last fact, and all metrics."""
    spans = [(span.seq, otlp.span(span)) for fact in facts for span in trace.hear(fact)]
    return spans, list(otlp.metrics(trace.figures, trace.start))


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What an export came to: how many ended spans and metrics were sent, and how many spans are open.

    `takes_metrics`: the collector takes them at all.
    """

    run: str
    spans: int
    metrics: int
    open: int
    takes_metrics: bool = True


async def export_run(store: Store, id: str, to: Destination, clock: Clock) -> Sent:
    """Send a run's spans that have ended and its metrics; sent once more they are the same ones.

    Raises:
        NotTaken: the collector does not take them, for `PATIENCE_S` seconds or at all.
        UserMistake: there is no such run.
        JournalDamaged: a fact is not what was written.
    """
    facts = await store.read(id)
    if not facts:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    trace = await fresh_trace(store, id, content=to.content)
    spans, figures = await in_thread(partial(ended_spans, trace, facts))
    collector = Collector(to)
    try:
        for batch in batches(span for _, span in spans):
            await _patiently(collector, "traces", batch, clock)
        if figures:
            await _patiently(collector, "metrics", figures, clock)
    finally:
        await collector.aclose()
    taken = len(figures) if collector.takes_metrics else 0
    return Sent(
        run=id,
        spans=len(spans),
        metrics=taken,
        open=trace.open,
        takes_metrics=collector.takes_metrics,
    )


async def _patiently(
    collector: Collector, signal: Signal, items: list[bytes], clock: Clock
) -> None:
    waited, wait = 0.0, 0.5
    while True:
        try:
            return await collector.send(signal, items)
        except NotTaken as error:
            # One that is not there at all will hardly come while somebody looks.
            if error.again_s is None or not error.is_there:
                raise
            pause = max(error.again_s, wait)
            if waited + pause > PATIENCE_S:
                raise
        await clock.sleep(pause)
        waited, wait = waited + pause, wait * 2
