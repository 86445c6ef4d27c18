"""Traces of one process: what belongs to one, what links to it, and that they cost nothing when they are off."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done, Outcome, Retry
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.traces import NO_TRACING
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.views import TaskView
from duetime.scheduler.worker.external.answers import ClaimedRun
from duetime.scheduler.worker.external.completion import attempt_of
from duetime.scheduler.worker.external.reports import ReportedOutcome, WorkerReport
from duetime.server.app import build
from duetime.server.runtime.logs import configure_logs
from duetime.server.settings.model import Settings
from duetime.server.telemetry.otel_traces import OtelTracing
from duetime.server.telemetry.otlp import make_provider
from duetime.server.telemetry.trace_setup import configured_tracing
from duetime.tools.worker.claim_answers import claims_answer
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider, sampling
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tests.builders import a_task, settlement
from tests.flow.auth.conftest import serving
from tests.flow.telemetry.isolated_handler import tell_trace
from tests.flow.telemetry.receiver import Receiver, receiving
from tests.flow.telemetry.span_tree import Seen, of_sdk, tree
from tests.flow.waiting import eventually

STATE = "vendor=t61rcWkgMzE,rojo=00f067aa0ba902b7"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TWICE = RetryPolicy(max_attempts=2, backoff=timedelta(milliseconds=1))
SECRET = "whsec_" + "QUJD" * 10


class House:
    """An application with traces in memory, handlers of its own, and a receiver of its webhooks."""

    def __init__(self, folder: Path, receiver: Receiver, provider: TracerProvider) -> None:
        self.exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.provider = provider
        self.receiver = receiver
        self.seen: list[str] = []
        settings = Settings.model_validate(
            {
                "database_url": f"sqlite:///{folder / 'duetime.db'}",
                "timezone": "UTC",
                "desktop_notifications": "off",
                "webhook_allow_http": True,
                "webhook_allow_private": True,
                "sqlite_synchronous": "OFF",
                "external_actions": {"transcribe": {"description": "Transcribes"}},
                "channels": {"team": {"webhook": receiver.url("/team"), "secret": SECRET}},
            }
        )
        self.app = build(settings, handlers=[self.nested, self.flaky, tell_trace], tracing=OtelTracing(provider))
        self.app.start()

    @property
    def nested(self) -> Any:
        @handler("nested")
        def nested(ctx: Context) -> Done:
            """Do work that has a span of its own, and logs a line."""
            self.seen.append(str(ctx.traceparent))
            with self.provider.get_tracer("shop").start_as_current_span("count stock"):
                logging.getLogger("shop").warning("counting")
            return Done()

        return nested

    @property
    def flaky(self) -> Any:
        @handler("flaky")
        def flaky(ctx: Context) -> Outcome:
            """Fail once."""
            if ctx.attempt == 1:
                raise ValueError("a payload of secrets")
            return Done()

        return flaky

    def schedule(self, title: str, **arguments: Any) -> TaskView:
        return self.app.scheduler.schedule(title, **arguments)

    def ended(self, view: TaskView, state: State = State.SUCCEEDED) -> None:
        task_id = view.record.task.id
        eventually(lambda: self.app.scheduler.get(task_id).record.run.state is state, "it ended")

    def spans(self) -> list[Seen]:
        return [of_sdk(span) for span in self.exporter.get_finished_spans()]

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans() if span.name == name]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with receiving() as receiver:
        made = House(tmp_path, receiver, make_provider())
        yield made
        made.app.close()


def test_a_task_is_one_trace_from_the_call_to_the_delivery(house: House) -> None:
    hook = {"url": house.receiver.url("/hook")}
    with house.provider.get_tracer("agent").start_as_current_span("plan the day"):
        house.schedule("Call the hook", action="webhook", payload=hook, deliver_to=["webhook:team"])
    eventually(lambda: len(house.named("deliver webhook")) == 1, "it is delivered")
    assert tree(house.spans()) == [
        "plan the day",
        "  schedule webhook",
        "    run webhook",
        "      admit webhook",
        "      claim webhook",
        "      handle webhook",
        "        POST",
        "      settle webhook",
        "      deliver webhook",
        "        POST",
    ]
    assert len({span.trace for span in house.spans()}) == 1
    sent = [request.headers["traceparent"].split("-")[2] for request in house.receiver.received]
    assert sent == [span.id for span in house.named("POST")]


def test_an_attempt_of_an_external_worker_is_in_the_trace_of_its_call_which_the_worker_continues(house: House) -> None:
    with house.provider.get_tracer("agent").start_as_current_span("plan the day"):
        house.schedule("Listen", action="transcribe", deliver_to=["webhook:team"])
    runs, claimed = house.app.scheduler.external_runs, list[ClaimedRun]()
    assert runs is not None

    def claim() -> bool:
        claimed[:] = runs.claim(by=LOCAL)
        return bool(claimed)

    eventually(claim, "it is claimed")
    told = (claims_answer(claimed).structured_content or {})["claims"][0]["traceparent"]
    context = TraceContextTextMapPropagator().extract({"traceparent": told})
    house.provider.get_tracer("worker").start_span("listen", context).end()
    runs.finish(str(claimed[0].name), WorkerReport(ReportedOutcome.DONE), by=LOCAL)
    eventually(lambda: len(house.named("deliver webhook")) == 1, "it is delivered")
    assert tree(house.spans()) == [
        "plan the day",
        "  schedule transcribe",
        "    run transcribe",
        "      admit transcribe",
        "      claim transcribe",
        "      handle transcribe",
        "      listen",
        "      settle transcribe",
        "      deliver webhook",
        "        POST",
    ]
    (whole,) = house.named("run transcribe")
    assert (whole.attributes["duetime.outcome"], whole.attributes["duetime.worker"]) == ("done", "mcp:local/local")


def test_an_attempt_that_its_time_limit_and_its_worker_end_at_once_is_one_span(house: House) -> None:
    house.schedule("Listen", action="transcribe")
    app, claimed = house.app, list[ClaimedRun]()
    runs = app.scheduler.external_runs
    assert runs is not None

    def claim() -> bool:
        claimed[:] = runs.claim(by=LOCAL)
        return bool(claimed)

    eventually(claim, "it is claimed")
    held = app.store.claimed_runs.held(claimed[0].claim.run.id)
    assert held is not None
    began, now = held.attempt_started_at, app.store.now()
    both = [attempt_of(held.claim, began, now, runs._notifier) for _ in range(2)]  # as two processes found it
    ends: tuple[Outcome, ...] = (Retry("its external worker did not finish within the time limit of 600 s"), Done())
    stored = [runs._completion.settle(attempt, end) for attempt, end in zip(both, ends, strict=True)]
    assert stored == [True, False]
    (whole,) = house.named("run transcribe")
    assert whole.attributes["duetime.outcome"] == "retry"
    assert [len(house.named(f"{part} transcribe")) for part in ("handle", "settle")] == [1, 1]


def test_attributes_name_ids_and_outcomes_and_neither_titles_payloads_tenants_nor_errors(house: House) -> None:
    view = house.schedule("A title of secrets", action="flaky", labels=["secrets too"], retry=TWICE)
    house.ended(view)
    told = json.dumps([span.attributes for span in house.spans()])
    assert not [word for word in ("secrets", "local", "127.0.0.1") if word in told.replace(os.uname().nodename, "")]
    first, second = sorted(house.named("run flaky"), key=lambda span: span.start)
    assert (first.attributes["duetime.outcome"], first.failed) == ("retry", True)
    assert (second.attributes["duetime.outcome"], second.failed) == ("done", False)
    assert first.attributes["duetime.task.id"] == view.record.task.id
    assert first.attributes["messaging.system"] == "duetime"
    assert first.attributes["messaging.destination.name"] == "flaky"


def test_attempts_of_a_run_are_in_the_trace_of_its_call(house: House) -> None:
    house.ended(house.schedule("Try twice", action="flaky", retry=TWICE))
    (called,) = house.named("schedule flaky")
    assert {span.trace for span in house.named("run flaky")} == {called.trace}
    assert {span.parent for span in house.named("run flaky")} == {called.id}


@pytest.mark.parametrize("later", [{"number": 2}, {"generation": 2}])
def test_later_runs_and_replays_have_traces_of_their_own_that_link_to_the_call(later: dict[str, Any]) -> None:
    provider, exporter = make_provider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    task, run = a_task(traceparent=CALLER)
    for attempt in (1, 2):
        claim = Claim(replace(run, attempt=attempt, **later), task, "w1")
        OtelTracing(provider).attempt(claim, None).ended(settlement(claim), stored=True)
    whole = [span for span in map(of_sdk, exporter.get_finished_spans()) if span.name == "run reminder"]
    assert [(span.links, span.parent) for span in whole] == [((CALLER.split("-")[1],), "")] * 2
    assert len({span.trace for span in whole}) == 1, "the attempts of a run share its trace, whoever runs them"
    assert whole[0].trace != CALLER.split("-")[1]


def test_spans_of_a_handler_are_below_its_own_and_it_may_continue_the_trace_elsewhere(house: House) -> None:
    house.ended(house.schedule("Count", action="nested"))
    (handled,), (counted,) = house.named("handle nested"), house.named("count stock")
    assert counted.parent == handled.id
    (traceparent,) = house.seen
    assert traceparent.split("-")[1:3] == [handled.trace, handled.parent]


@pytest.mark.parametrize("action", ["webhook", "tell_trace"])
def test_the_state_of_other_tracers_goes_from_the_caller_to_the_handler_and_with_each_webhook(
    house: House, action: str
) -> None:
    hook = {"url": house.receiver.url("/hook")} if action == "webhook" else {}
    token = attach(TraceContextTextMapPropagator().extract({"traceparent": CALLER, "tracestate": STATE}))
    view = house.schedule("Call the hook", action=action, payload=hook, deliver_to=["webhook:team"])
    detach(token)
    eventually(lambda: len(house.named("deliver webhook")) == 1, "it is delivered")
    run = house.app.scheduler.get(view.record.task.id).record.run
    sent = [request.headers["tracestate"] for request in house.receiver.received]
    told = [] if action == "webhook" else [run.result["tracestate"]]
    assert [*sent, *told] == [STATE] * 2


def test_a_webhook_with_a_trace_of_its_own_gets_the_state_of_no_other(house: House) -> None:
    own = {"url": house.receiver.url("/hook"), "headers": {"traceparent": CALLER}}
    token = attach(TraceContextTextMapPropagator().extract({"traceparent": CALLER, "tracestate": STATE}))
    house.ended(house.schedule("Call the hook", action="webhook", payload=own))
    detach(token)
    (request,) = house.receiver.at("/hook")
    assert "tracestate" not in request.headers


def test_of_a_long_state_the_long_members_go_first_and_then_the_last() -> None:
    short = [f"v{number}={'x' * 96}" for number in range(6)]
    given = ",".join([f"long={'y' * 150}", *short])
    task, run = a_task(traceparent=CALLER, tracestate=given)
    kept = OtelTracing(make_provider()).attempt(Claim(run, task, "w1"), None).tracestate
    assert kept == ",".join(short[:5])


def test_a_handler_in_a_process_of_its_own_knows_its_trace(house: House) -> None:
    view = house.schedule("Tell", action="tell_trace")
    house.ended(view)
    (whole,) = house.named("run tell_trace")
    result = house.app.scheduler.get(view.record.task.id).record.run.result
    assert result["traceparent"].split("-")[1:3] == [whole.trace, whole.id]


@pytest.mark.parametrize("style", ["json", "text"])
def test_log_lines_of_a_handler_and_of_its_failure_name_the_trace_and_the_span(house: House, style: Any) -> None:
    root = logging.getLogger()
    before, level, logged = list(root.handlers), root.level, io.StringIO()
    configure_logs("info", style, stream=logged)
    try:
        house.ended(house.schedule("Count", action="nested"))
        house.ended(house.schedule("Fail once", action="flaky", retry=TWICE))
    finally:
        root.handlers[:], root.level = before, level
    eventually(lambda: len(house.named("run flaky")) == 2, "the spans of both attempts have ended")
    (counted,), (failed, _) = house.named("count stock"), sorted(house.named("run flaky"), key=lambda it: it.start)
    lines = [line for line in logged.getvalue().splitlines() if "counting" in line or "attempt 1 failed" in line]
    if style == "text":
        for line, span in zip(lines, (counted, failed), strict=True):
            assert f"trace {span.trace}-{span.id}]" in line
    else:
        found = [(line["trace_id"], line["span_id"], line["attempt"]) for line in map(json.loads, lines)]
        assert found == [(counted.trace, counted.id, 1), (failed.trace, failed.id, 1)]


def test_an_unsampled_trace_is_not_recorded_in_a_later_process_either(tmp_path: Path) -> None:
    with receiving() as receiver:
        house = House(tmp_path, receiver, TracerProvider(sampler=sampling.ParentBased(sampling.ALWAYS_OFF)))
        view = house.schedule("Unseen", action="nested")
        house.ended(view)
        house.app.close()
    assert house.spans() == []
    traceparent = view.record.task.traceparent
    assert traceparent is not None
    assert not int(traceparent[-2:], 16) & 1, "whoever continues it knows"


class Hanging(SpanExporter):
    """Sends nothing until it is released, as a collector that does not answer."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the base's
        self.asked.set()
        self.released.wait()
        return SpanExportResult.FAILURE


def test_an_exporter_that_hangs_neither_stops_work_nor_the_end_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.app.TRACE_FLUSH_GRACE_S", 0.05)
    provider, hanging = make_provider(), Hanging()
    provider.add_span_processor(BatchSpanProcessor(hanging, max_queue_size=8, max_export_batch_size=4))
    with receiving() as receiver:
        house = House(tmp_path, receiver, provider)
        for n in range(10):  # many more spans than the exporter keeps
            house.ended(house.schedule(f"Count {n}", action="nested"))
        assert hanging.asked.wait(60)
        house.app.close()
    hanging.released.set()
    provider.shutdown()


def test_without_tracing_a_task_keeps_no_trace(tmp_path: Path) -> None:
    settings = {"database_url": f"sqlite:///{tmp_path / 'duetime.db'}", "timezone": "UTC"}
    with build(Settings.model_validate(settings), tracing=NO_TRACING) as app:
        assert app.scheduler.schedule("Stretch", when="in 2 hours").record.task.traceparent is None


@pytest.mark.parametrize(
    ("environment", "warning"),
    [
        ({}, ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ""),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "the exporter is 'grpc'"),
    ],
)
def test_traces_are_off_unless_the_environment_asks_for_what_can_be_had(
    environment: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert configured_tracing(environment) is NO_TRACING
    assert (warning in caplog.text) if warning else not caplog.text


def test_a_process_without_the_sdk_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("duetime.server.telemetry.otlp", "opentelemetry.sdk.resources", "opentelemetry.sdk.trace"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    assert configured_tracing({"OTEL_TRACES_EXPORTER": "otlp"}) is NO_TRACING
    assert "pip install '.[otel]'" in caplog.text


def test_a_program_that_only_schedules_loads_nothing_of_opentelemetry(tmp_path: Path) -> None:
    code = (
        "import sys; from duetime import Scheduler\n"
        "with Scheduler.open() as scheduler: scheduler.schedule('Stretch', when='in 2 hours')\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "DUETIME_"))}
    url = {"DUETIME_DATABASE_URL": f"sqlite:///{tmp_path / 'duetime.db'}", "DUETIME_TIMEZONE": "UTC"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **url}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.anyio
async def test_a_request_of_the_rest_api_is_a_span_of_its_callers_trace(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), make_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with serving(tmp_path, tracing=OtelTracing(provider)) as site:
        body = {"title": "Canary", "when": "in 2 hours"}
        made = await site.http.post("/v1/tasks", json=body, headers={"traceparent": CALLER})
        await site.http.get("/v1/tasks/t_000000000000", headers={"traceparent": CALLER})
        await site.http.put("/v1/pools/team/gpu", json={"spec": {"capacity": 2}})
    spans = [of_sdk(span) for span in exporter.get_finished_spans()]
    _, trace_id, caller, _ = CALLER.split("-")

    assert tree([span for span in spans if span.trace == trace_id], caller) == [
        "POST /v1/tasks",
        "  schedule reminder",
        "GET /v1/tasks/{task_id}",
    ]
    assert [
        (span.name, span.attributes["http.response.status_code"], span.failed) for span in spans if " /v1" in span.name
    ] == [
        ("POST /v1/tasks", 201, False),
        ("GET /v1/tasks/{task_id}", 404, False),
        ("PUT /v1/pools/{name}", 200, False),
    ]
    assert made.status_code == 201
    assert "Canary" not in str(spans)
