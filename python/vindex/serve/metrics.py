"""Figures for Prometheus: of requests and jobs, with no name of a model or a client."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from vindex.serve.jobs.queue import Jobs
from vindex.serve.jobs.records import Job

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ("GET", "HEAD", "POST", "DELETE")
_RUN_SECONDS = (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600)


class _States:
    """Jobs by state, counted when they are asked for."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily("vindex_serve_jobs", "Jobs by state", labels=["state"])
        for state, count in self._jobs.counts().items():
            jobs.add_metric([state], count)
        yield jobs
        yield GaugeMetricFamily(
            "vindex_serve_unsaved_states",
            "States of jobs that a full disk kept from being written",
            value=self._jobs.unsaved,
        )


class Metrics:
    """Counters of one server."""

    def __init__(self, jobs: Jobs) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "vindex_serve_requests", "Answers by route and status",
            ["method", "route", "status"], registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "vindex_serve_request_seconds", "From the request to the end of its answer",
            ["route"], registry=self._registry,
        )  # fmt: skip
        self._runs = Counter(
            "vindex_serve_runs", "Jobs that have ended, by command and state",
            ["verb", "state"], registry=self._registry,
        )  # fmt: skip
        self._run_seconds = Histogram(
            "vindex_serve_run_seconds", "From the start of a job to its end",
            ["verb"], registry=self._registry, buckets=_RUN_SECONDS,
        )  # fmt: skip
        self.streams = Gauge(
            "vindex_serve_event_streams", "Clients that follow a job", registry=self._registry
        )
        self._registry.register(_States(jobs))
        jobs.endings.append(self._ended)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts one answer. Routes are templates, so their number is bounded."""
        shown = method if method in _METHODS else "other"
        self._requests.labels(shown, route, str(status)).inc()
        if not route.endswith("/events"):
            self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Everything in the text format."""
        return generate_latest(self._registry)

    def _ended(self, job: Job) -> None:
        self._runs.labels(job.request.verb, job.now.state).inc()
        if job.now.started is not None and job.now.finished is not None:
            self._run_seconds.labels(job.request.verb).observe(job.now.finished - job.now.started)
