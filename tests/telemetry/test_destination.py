"""Where traces are sent to: the standard variables, the setting, and nothing unless it is asked for."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.collector import Collector

from midstream.app.assembly import Options, parts
from midstream.config.manager import ConfigManager
from midstream.config.settings import read_settings
from midstream.language.errors import UserMistake
from midstream.telemetry import otlp
from midstream.telemetry.sending import MAX_BYTES, batches, destination
from midstream.telemetry.sending import Collector as Sender

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"


def where(environ: dict[str, str], **more: Any) -> tuple[str, str]:
    to = destination(environ, **more)
    return ("", "") if to is None else (to.traces, to.metrics)


@pytest.mark.parametrize(
    ("environ", "url", "expected"),
    [
        ({BASE: "http://c:4318"}, "", ("http://c:4318/v1/traces", "http://c:4318/v1/metrics")),
        ({BASE: "http://c/otlp/"}, "", ("http://c/otlp/v1/traces", "http://c/otlp/v1/metrics")),
        ({}, "http://c/v1/traces", ("http://c/v1/traces", "http://c/v1/metrics")),
        ({BASE: "http://c:4318"}, "https://d", ("https://d/v1/traces", "https://d/v1/metrics")),
        ({}, "", ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics")),
        (
            {BASE: "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"},
            *("", ("http://t/x", "http://c/v1/metrics")),
        ),
        ({BASE: "http://c", "OTEL_METRICS_EXPORTER": "none"}, "", ("http://c/v1/traces", "")),
        ({BASE: "http://c", "OTEL_SDK_DISABLED": "true"}, "", ("", "")),
    ],
)
def test_the_standard_variables_say_where(
    environ: dict[str, str], url: str, expected: tuple[str, str]
) -> None:
    assert where(environ, url=url) == expected


def test_the_standard_variables_say_how_and_in_whose_name() -> None:
    environ = {
        BASE: "http://c",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20abc,x-team=a",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-team=b",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,deployment.environment.name=ci",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    }
    to = destination(environ)

    assert to is not None
    assert to.headers["traces"] == {"authorization": "Basic abc", "x-team": "a"}
    assert to.headers["metrics"] == {"x-team": "b"}
    assert (to.timeout_s, to.is_zipped, to.content) == (2.5, True, True)
    assert to.resource["service.name"] == "mine"
    assert to.resource["deployment.environment.name"] == "ci"


@pytest.mark.parametrize(
    "environ",
    [
        {BASE: "localhost:4318"},
        {BASE: "file:///etc/passwd"},
        {BASE: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {BASE: "http://c d"},
    ],
)
def test_what_cannot_be_sent_to_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(UserMistake) as told:
        destination(environ)
    assert told.value.hint


async def test_headers_and_compression_reach_the_collector() -> None:
    with Collector() as collector:
        environ = {
            BASE: collector.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
        }
        to = destination(environ)
        assert to is not None
        sender = Sender(to)
        await sender.send("metrics", [])
        await sender.aclose()
        [headers] = collector.headers
        assert headers["authorization"] == "Bearer x"
        assert headers["content-encoding"] == "gzip"


def test_no_request_is_larger_than_a_collector_takes() -> None:
    many = [bytes(1000)] * 5000
    groups = list(batches(many))
    assert [each for group in groups for each in group] == many
    assert max(map(len, groups)) == 512
    assert [len(group) for group in batches([bytes(MAX_BYTES)] * 3)] == [1, 1, 1]


@pytest.mark.parametrize("answer", [b"", b"\x0a", b"\xff" * 9, b"<html>no</html>", b"\x0a\x02\x08"])
def test_an_answer_that_is_none_says_nothing_was_refused(answer: bytes) -> None:
    assert otlp.rejected(answer) == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("true", {"traces": "true"}),
        ("false", {"traces": "false"}),
        (
            '{"endpoint": "http://c:4318", "content": true}',
            {"traces": "true", "traces.endpoint": "http://c:4318", "traces.content": "true"},
        ),
        ('{"endpoint": "c:4318"}', {}),
        ('{"endpoint": 5}', {}),
        ('"http://c"', {}),
    ],
)
def test_the_setting(said: str, expected: dict[str, str]) -> None:
    text = f'{{"traces": {said}}}'
    settings, problems = read_settings(text, file="a.json")
    assert settings == expected
    assert bool(problems) == (not expected)
    assert read_settings(text, file="a.json", is_workspace=True)[0] == {}


@pytest.mark.parametrize(
    ("said", "endpoint", "is_sent"),
    [
        (None, "", False),
        (None, "http://127.0.0.1:9", True),
        (True, "", True),
        (False, "http://127.0.0.1:9", False),
    ],
)
async def test_traces_are_sent_where_it_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: bool | None,
    endpoint: str,
    is_sent: bool,
) -> None:
    monkeypatch.setenv("MIDSTREAM_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv(BASE, endpoint)
    (tmp_path / "config").mkdir()
    if said is not None:
        (tmp_path / "config/application.json").write_text(json.dumps({"traces": said}))
    for module in [name for name in sys.modules if name.startswith("midstream.telemetry.live")]:
        monkeypatch.delitem(sys.modules, module)

    options = Options(workspace=tmp_path, journal="none")
    made = await asyncio.to_thread(lambda: parts(ConfigManager(tmp_path), options))

    assert ("midstream.telemetry.live" in sys.modules) == is_sent
    await made.engine.close()
    await made.client.aclose()
