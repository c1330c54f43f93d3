"""Identifiers of models, files and outputs of jobs as the paths that a run is given.

A run's current folder is its job's: models are `models/ID` (a link to --models), outputs of other
jobs `../ID/out/NAME`. So no run is given, writes down or repeats a path of this machine.
"""

from __future__ import annotations

import re

from vindex.serve.confine import OutsideError, resolve
from vindex.serve.jobs.commands import JOB_ID, OUT, Kind
from vindex.serve.jobs.queue import Jobs
from vindex.serve.jobs.records import Job
from vindex.serve.problems import Problem, not_found
from vindex.serve.settings import Settings, parse_bytes

_OUTPUT = re.compile(rf"job:({JOB_ID})(?:/(.+))?", re.DOTALL)


def result_name(job: Job) -> str | None:
    """Name of a job's results file in its `out`, whether or not it is there yet."""
    name = job.request.output
    return name if name is not None and name.endswith(".h5") else None


class Inputs:
    """Turns identifiers of a client into arguments of a run; every Problem is the same 404."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs

    def locate(self, kind: Kind, identifier: str) -> str:
        """The argument for an identifier of a kind. Raises Problem (404)."""
        if kind is Kind.INPUT:
            return self._input(identifier)
        job = self._jobs.get(identifier)
        name = result_name(job)
        if name is None:
            raise not_found("results file")
        there = (job.out / name).is_file() and kind is Kind.RESULTS
        parts = (job.out / f"{name}.parts").is_dir()
        if kind is Kind.PARTS and parts:
            return f"../{job.id}/{OUT}/{name}.parts"
        if there or (kind is Kind.RESULTS and parts):
            return f"../{job.id}/{OUT}/{name}"
        raise not_found("results file")

    def _input(self, identifier: str) -> str:
        found = _OUTPUT.fullmatch(identifier)
        try:
            if found is None:
                resolve(self._settings.models, identifier)
                return f"models/{identifier}"
            job = self._jobs.get(found[1])
            name = found[2] or job.request.output
            if name is None:
                raise not_found("output")
            resolve(job.out, name)
            return f"../{job.id}/{OUT}/{name}"
        except OutsideError:
            raise not_found("model or file") from None

    def budget(self, asked: str | None) -> str:
        """`--ram-budget` of a job: this server's share, or less where the client asks for it."""
        share = self._settings.ram_budget
        if asked is None:
            return str(share)
        try:
            wanted = parse_bytes(asked)
        except ValueError:
            raise Problem(422, "E-USAGE", "option `ram-budget` is a size such as 8GiB") from None
        if not 0 < wanted <= share:
            raise Problem(403, "E-SERVE-BUDGET", f"a job may have {share} bytes of memory here")
        return str(wanted)
