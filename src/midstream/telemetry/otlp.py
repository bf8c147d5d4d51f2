"""Spans and figures as OTLP: the protobuf messages of `opentelemetry-proto` 1.x that are used.

Written by hand, in the order of the field numbers: three kinds of fields are all there is to it, and no
library has to be installed or imported for them. Tests read all of it with the official types.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

from midstream.telemetry import names as n
from midstream.telemetry.figures import Attributes, Figure, Value
from midstream.telemetry.spans import Event, Link, Span

_ERROR: Final = 2
_CUMULATIVE: Final = 2


def resource(attributes: Attributes) -> bytes:
    """Return who tells, as it stands in every request."""
    return b"".join(_attributes(1, attributes))


def request(resource: bytes, version: str, items: Iterable[bytes]) -> bytes:
    """Return the request that tells of spans, as `span` returns them, or of metrics, as `metrics` does."""
    scope = (
        _text(1, n.SCOPE)
        + _text(2, version)
        + _block(3, _attribute("gen_ai.conventions", n.CONVENTIONS))
    )
    of_scope = _block(1, scope) + b"".join(_block(2, item) for item in items)
    return _block(1, _block(1, resource) + _block(2, of_scope))


def span(span: Span) -> bytes:
    """Return a span."""
    return b"".join(
        (
            *(_block(1, span.trace), _block(2, span.id)),
            *([_block(4, span.parent)] if span.parent else []),
            *(
                _text(5, span.name),
                _number(6, span.kind),
                _fixed(7, span.start),
                _fixed(8, span.end),
            ),
            *_attributes(9, span.attributes),
            *(_block(11, _event(event)) for event in span.events),
            _number(12, span.dropped_events),
            *(_block(13, _link(link)) for link in span.links),
            *([_block(15, _number(3, _ERROR))] if span.error else []),
        )
    )


def metrics(figures: Iterable[Figure], start: int) -> Iterator[bytes]:
    """Yield the metrics of figures that count from `start`, in nanoseconds since 1970."""
    by_metric: dict[n.Metric, list[Figure]] = {}
    for figure in figures:
        by_metric.setdefault(figure.metric, []).append(figure)
    for metric, series in by_metric.items():
        head = _text(1, metric.name) + _text(2, metric.about) + _text(3, metric.unit)
        points = b"".join(_block(1, _point(each, start)) for each in series)
        if metric.bounds:
            yield head + _block(9, points + _number(2, _CUMULATIVE))
        else:
            yield head + _block(7, points + _number(2, _CUMULATIVE) + _number(3, 1))


def _point(figure: Figure, start: int) -> bytes:
    times = _fixed(2, min(start, figure.at)) + _fixed(3, figure.at)
    if not figure.metric.bounds:
        amount = figure.total
        told = _double(4, amount) if isinstance(amount, float) else _fixed(6, amount)
        return times + told + b"".join(_attributes(7, figure.attributes))
    buckets = struct.pack(f"<{len(figure.buckets)}Q", *figure.buckets)
    bounds = struct.pack(f"<{len(figure.metric.bounds)}d", *figure.metric.bounds)
    return b"".join(
        (
            *(times, _fixed(4, figure.count), _double(5, figure.total)),
            *(_block(6, buckets), _block(7, bounds)),
            *_attributes(9, figure.attributes),
            *(_double(11, figure.least), _double(12, figure.most)),
        )
    )


def _event(event: Event) -> bytes:
    return _fixed(1, event.at) + _text(2, event.name) + b"".join(_attributes(3, event.attributes))


def _link(link: Link) -> bytes:
    return _block(1, link.trace) + _block(2, link.span) + b"".join(_attributes(4, link.attributes))


def _attributes(field: int, attributes: Attributes) -> Iterator[bytes]:
    for name, value in attributes.items():
        yield _block(field, _attribute(name, value))


def _attribute(name: str, value: Value) -> bytes:
    return _text(1, name) + _block(2, _any(value))


def _any(value: Value) -> bytes:
    match value:
        case str():
            return _text(1, value)
        case bool():
            return _key(2, 0) + _varint(int(value))
        case int():
            return _key(3, 0) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        case float():
            return _double(4, value)
        case _:
            return _block(5, b"".join(_block(1, _text(1, each)) for each in value))


# --- the wire -----------------------------------------------------------------------------------


@lru_cache(1024)
def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _number(field: int, number: int) -> bytes:
    return _key(field, 0) + _varint(number) if number else b""


def _fixed(field: int, number: int) -> bytes:
    return _key(field, 1) + struct.pack("<Q", max(number, 0))


def _double(field: int, number: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", number)


def _block(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _block(field, text.encode("utf-8", "replace"))


_PARTIAL: Final = re.compile(rb"\x0a[\x80-\xff]*[\x00-\x7f]\x08([\x80-\xff]*[\x00-\x7f])")
"""Field 1 of an answer, a block that begins with a number in its own field 1."""


def rejected(answer: bytes) -> int:
    """Return how many spans or points a collector took and then refused, as far as its answer says."""
    partial = _PARTIAL.match(answer)
    number = b"" if partial is None else partial[1]
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(number))
