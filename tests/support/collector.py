"""A strict OpenTelemetry collector: it reads with the official types, and takes nothing that is not right.

with Collector() as collector:
    ...                                   # something sends to collector.url
spans = collector.whole()                 # by id, once each; a trace that is not whole is an error
"""

import contextlib
import gzip
import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Value = Any
_CUMULATIVE: Final = 2


class Got(msgspec.Struct, frozen=True):
    """A span as the collector has it."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Value]
    events: tuple[tuple[str, int, dict[str, Value]], ...]
    links: tuple[tuple[str, str], ...]
    status: int


class Say(msgspec.Struct, frozen=True):
    """What the collector answers once, in place of taking what it is sent."""

    status: int = 200
    headers: Mapping[str, str] = {}
    rejects: int = 0


class Collector:
    """The receiver. `answers` are used up one by one; while `holds` is not set it answers nobody.

    `to_metrics` is what it answers to metrics, for ever: None takes them.
    """

    def __init__(self) -> None:
        self.spans: dict[str, Got] = {}
        self.points: dict[tuple[str, str], dict[str, Any]] = {}
        self.resources: list[dict[str, Value]] = []
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self.answers: list[Say] = []
        self.to_metrics: Say | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.wrong: list[str] = []
        self.url = ""

    def __enter__(self) -> "Collector":
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()
        assert self.wrong == [], self.wrong

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["content-length"])
        body = request.rfile.read(length)
        if len(body) < length:
            return  # whoever sent it died meanwhile
        if not self.goes_on.is_set():
            self.goes_on.wait()
            return  # whoever waited is gone
        self.requests += 1
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        said = self.answers.pop(0) if self.answers else Say()
        if request.path == "/v1/metrics" and self.to_metrics is not None:
            said = self.to_metrics
        answer = b""
        if said.status == 200:
            try:
                assert request.headers["content-type"] == "application/x-protobuf"
                if request.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                self.take(request.path, body)
            except AssertionError as error:
                self.wrong.append(str(error) or repr(error))
            partial = ExportTraceServiceResponse()
            partial.partial_success.rejected_spans = said.rejects
            answer = partial.SerializeToString()
        with contextlib.suppress(OSError):
            request.send_response(said.status)
            for name, value in said.headers.items():
                request.send_header(name, value)
            request.send_header("content-length", str(len(answer)))
            request.end_headers()
            request.wfile.write(answer)

    # --- what it takes ----------------------------------------------------------------------

    def take(self, path: str, body: bytes) -> None:
        """Take one request."""
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            assert traces.SerializeToString(deterministic=True)
            assert traces.resource_spans, "a request without spans"
            for resource in traces.resource_spans:
                self._resource(resource)
                for scope in resource.scope_spans:
                    assert scope.scope.name == "midstream"
                    assert len(scope.spans) <= 512, "too many spans for a request"
                    for span in scope.spans:
                        self._span(span)
        else:
            assert path == "/v1/metrics", path
            metrics = ExportMetricsServiceRequest.FromString(body)
            for resource in metrics.resource_metrics:
                self._resource(resource)
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self._metric(metric)

    def _resource(self, message: Any) -> None:
        _require_known(message)
        attributes = _attributes(message.resource.attributes)
        assert attributes["service.name"]
        self.resources.append(attributes)

    def _span(self, span: Any) -> None:
        assert len(span.trace_id) == 16, "a trace id has 16 bytes"
        assert any(span.trace_id), "a trace id is not all zeros"
        assert len(span.span_id) == 8, "a span id has 8 bytes"
        assert any(span.span_id), "a span id is not all zeros"
        assert len(span.parent_span_id) in (0, 8)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, f"times of {span.name}"
        assert span.name, "a span has a name"
        assert "\n" not in span.name
        assert span.kind in (1, 3)
        assert span.status.code in (0, 2)
        attributes = _attributes(span.attributes)
        assert (span.status.code == 2) == ("error.type" in attributes), span.name
        for event in span.events:
            assert event.name
            inside = span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano
            assert inside, f"{event.name} of {span.name} is not during it"
        for link in span.links:
            assert (len(link.trace_id), len(link.span_id)) == (16, 8)
        got = Got(
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            name=span.name,
            kind=span.kind,
            start=span.start_time_unix_nano,
            end=span.end_time_unix_nano,
            attributes=attributes,
            events=tuple(
                (e.name, e.time_unix_nano, _attributes(e.attributes)) for e in span.events
            ),
            links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
            status=span.status.code,
        )
        known = self.spans.setdefault(got.id, got)
        assert known == got, f"two spans of one id: {known} and {got}"

    def _metric(self, metric: Any) -> None:
        assert metric.name
        assert metric.unit
        data = getattr(metric, metric.WhichOneof("data"))
        assert data.aggregation_temporality == _CUMULATIVE
        is_sum = metric.WhichOneof("data") == "sum"
        assert not is_sum or data.is_monotonic
        assert data.data_points
        for point in data.data_points:
            attributes = _attributes(point.attributes)
            assert 0 < point.start_time_unix_nano <= point.time_unix_nano
            if is_sum:
                told = {"value": getattr(point, point.WhichOneof("value"))}
                amount: float = told["value"]
            else:
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert sum(point.bucket_counts) == point.count
                bounds = list(point.explicit_bounds)
                assert bounds == sorted(set(bounds))
                assert point.min <= point.max
                told = {"count": point.count, "sum": point.sum}
                amount = point.count
            key = (metric.name, repr(sorted(attributes.items())))
            known = self.points.get(key)
            if known is not None and point.time_unix_nano >= known["at"]:
                assert amount >= known["amount"], f"{metric.name} went back"
                assert point.start_time_unix_nano == known["start"]
            if known is None or point.time_unix_nano >= known["at"]:
                self.points[key] = {
                    **told,
                    "attributes": attributes,
                    "amount": amount,
                    "at": point.time_unix_nano,
                    "start": point.start_time_unix_nano,
                }

    # --- what it has ------------------------------------------------------------------------

    def whole(self) -> dict[str, Got]:
        """Return all spans, once every trace is whole: one root, parents that are there, and around."""
        for trace in {span.trace for span in self.spans.values()}:
            own = {span.id: span for span in self.spans.values() if span.trace == trace}
            roots = [span.name for span in own.values() if not span.parent]
            assert len(roots) == 1, f"roots: {roots} of {[span.name for span in own.values()]}"
            for span in own.values():
                if span.parent:
                    around = own.get(span.parent)
                    assert around is not None, f"{span.name} has no parent"
                    assert around.start <= span.start, f"{span.name} begins before {around.name}"
                    # What the work of a state asked may be answered later than that was cut.
                    assert span.end <= around.end, f"{span.name} ends after {around.name}"
        return self.spans

    def figures(self, name: str) -> list[dict[str, Any]]:
        """Return the series of a metric."""
        return [point for (metric, _), point in self.points.items() if metric == name]

    def total(self, name: str) -> float:
        """Return the sum of a metric over its series: of a histogram, how often."""
        return sum(float(point["amount"]) for point in self.figures(name))

    def named(self, name: str) -> list[Got]:
        """Return the spans of a name, the first first."""
        found = [span for span in self.spans.values() if span.name == name]
        return sorted(found, key=lambda span: (span.start, span.attributes["midstream.seq"]))


def _require_known(message: Any) -> None:
    """A field that the official types do not know is one we got wrong."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

    assert len(UnknownFieldSet(message)) == 0, f"unknown fields in {type(message).__name__}"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in value if isinstance(value, Iterable) else (value,):
                _require_known(each)


def _attributes(pairs: Iterable[Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in _read(pairs):
        assert name, "an attribute has a name"
        assert name not in found, f"{name} stands there twice"
        found[name] = value
    return found


def _read(pairs: Iterable[Any]) -> Iterator[tuple[str, Value]]:
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        assert kind in ("string_value", "bool_value", "int_value", "double_value", "array_value")
        value = getattr(pair.value, kind)
        if kind == "array_value":
            assert all(item.WhichOneof("value") == "string_value" for item in value.values)
            value = tuple(item.string_value for item in value.values)
        yield pair.key, value
