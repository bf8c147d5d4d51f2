"""Traces made of facts by hand, and what a strict collector has of them."""

from collections.abc import Sequence

from support.collector import Collector

from midstream.core.notices import Envelope
from midstream.safety.redaction import Redactor
from midstream.telemetry import otlp
from midstream.telemetry.spans import Fork, Trace

RESOURCE = otlp.resource({"service.name": "midstream"})


def told(
    collector: Collector,
    facts: Sequence[Envelope],
    *,
    run: str = "",
    fork: Fork | None = None,
    content: bool = False,
    redactor: Redactor | None = None,
) -> Trace:
    """Let a collector have all that facts say; return the trace."""
    run = run or facts[0].run
    trace = Trace(run, redactor or Redactor(), fork=fork, content=content)
    spans = [otlp.span(span) for fact in facts for span in trace.hear(fact)]
    for at in range(0, len(spans), 500):
        collector.take("/v1/traces", otlp.request(RESOURCE, "1", spans[at : at + 500]))
    figures = list(otlp.metrics(trace.figures, trace.start))
    if figures:
        collector.take("/v1/metrics", otlp.request(RESOURCE, "1", figures))
    return trace
