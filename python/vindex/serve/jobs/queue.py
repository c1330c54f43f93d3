"""Jobs: the queue, starting, watching, adopting after a restart, cancelling, resuming.

A job is a folder (`records`) and, while it runs, a supervisor (`supervise`) with the program. This
module only looks at those from outside, so a server that is killed at any moment leaves nothing
that the next one could not find: an answered job is in its folder, a run holds the folder's lock,
an ended run has left its exit code.

All calls are safe from several threads; they block for a write to disk at most.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from vindex.serve.jobs import processes, records, supervise
from vindex.serve.jobs.commands import JOB_ID, OUT, Command
from vindex.serve.jobs.records import CANCELLED, DONE, FAILED, LOST, QUEUED, RUNNING, Job, State
from vindex.serve.jobs.requests import Request
from vindex.serve.problems import Problem, error_of_exit, not_found, redact
from vindex.serve.settings import MAX_QUEUED, Settings

log = logging.getLogger("vindex.serve")

# A run whose supervisor was killed (by the kernel for memory, as a rule) is started again if its
# command resumes, but not for ever.
MAX_LOSSES = 3
# Exit codes of a run that a signal has stopped early: of the program, and of a process that the
# signal ended before it looked at signals. The same command again goes on.
STOPPED = (75, 128 + signal.SIGTERM, 128 + signal.SIGINT)
LOOK_SECONDS = 0.1
_NEVER_BEGAN = ("E-STOPPED", "cancelled before it began")
# Names that runs are given, see `inputs`.
_MODELS = re.compile(r"(?<![\w./-])models/")
_OTHER_JOB = re.compile(rf"\.\./({JOB_ID})/{OUT}/")


class Jobs:
    """Every job of one --work folder.

    Attributes:
        unsaved: states that a full disk kept from being written, so far.
        endings: called with (job) whenever one reaches a final state.
    """

    def __init__(
        self, settings: Settings, program: str, commands: Mapping[str, Command], start: bool = True
    ) -> None:
        self._settings = settings
        self._program = program
        self._commands = commands
        self._folder = settings.work / "jobs"
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._keys: dict[str, str] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._told: set[tuple[str, int]] = set()
        self._save_again = 0.0
        self._wake = threading.Event()
        self._closed = False
        self.unsaved = 0
        self.endings: list[Callable[[Job], None]] = []
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._adopt()
        self._thread = threading.Thread(target=self._watch, name="jobs", daemon=True)
        if start:
            self._thread.start()

    # What clients ask for.

    def submit(self, request: Request, key: str | None, asked: Any) -> tuple[Job, bool]:
        """Queues a job; (job, whether it is new). The same key again gives the same job.

        Raises:
            Problem: 429 where the queue is full, 409 for a key that asked for something else,
                507 where the job cannot be written.
        """
        text = json.dumps(asked, sort_keys=True, ensure_ascii=True)
        body = hashlib.sha256(text.encode("ascii")).hexdigest()
        digest = hashlib.sha256(key.encode("utf-8")).hexdigest() if key is not None else None
        with self._lock:
            known = self._keys.get(digest) if digest is not None else None
            if known is not None:
                if self._jobs[known].body != body:
                    raise Problem(
                        409, "E-SERVE-KEY", "this Idempotency-Key was used for another request"
                    )
                return self._jobs[known], False
            self._room()
            id = records.new_id()
            while id in self._jobs:
                id = records.new_id()
            now = time.time()
            job = Job(id, self._folder / id, request, now, digest, body, State(queued=now))
            try:
                records.create(self._folder, job)
            except OSError as error:
                log.error("job %s cannot be written: %s", id, error)
                raise Problem(507, "E-OUT-WRITE", "no room for a job on the disk") from None
            self._jobs[id] = job
            if digest is not None:
                self._keys[digest] = id
        self._wake.set()
        return job, True

    def resume(self, id: str) -> Job:
        """Queues a job again that ended early; it goes on where it stopped."""
        with self._lock:
            job = self.get(id)
            if not self._resumes(job):
                raise Problem(409, "E-SERVE-RESUME", f"{job.request.verb} cannot be resumed")
            if job.now.state not in (FAILED, CANCELLED, LOST):
                raise Problem(409, "E-SERVE-STATE", f"the job is {job.now.state}")
            self._room()
            self._queue_again(job, losses=0)
        self._wake.set()
        return job

    def cancel(self, id: str) -> Job:
        """Ends a job: one that waits at once, one that runs by SIGTERM.

        What it has finished is published. Asking again changes nothing.
        """
        with self._lock:
            job = self.get(id)
            if job.now.state == QUEUED:
                records.mark_cancelled(job, True)
                self._end(job, CANCELLED, None, _NEVER_BEGAN)
            elif job.now.state == RUNNING:
                if not job.now.cancel:
                    records.mark_cancelled(job, True)
                    records.save(job)
                self._tell(job)
            else:
                raise Problem(409, "E-SERVE-STATE", f"the job is {job.now.state}")
            return job

    def get(self, id: str) -> Job:
        """A job; Problem 404 where there is none."""
        job = self._jobs.get(id)
        if job is None:
            raise not_found("job")
        return job

    def all(self) -> list[Job]:
        """Every job, the latest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: job.id, reverse=True)

    def counts(self) -> dict[str, int]:
        """Jobs of each state."""
        result = dict.fromkeys(records.STATES, 0)
        with self._lock:
            for job in self._jobs.values():
                result[job.now.state] += 1
        return result

    def describe(self, job: Job) -> dict[str, Any]:
        """A job as clients see it."""
        now = job.now
        progress = now.progress
        if now.state == RUNNING:
            progress = records.last_progress(records.tail(job)) or progress
        error = None
        if now.error_id is not None:
            error = {"id": now.error_id, "text": now.error_text}
        return {
            "id": job.id,
            "verb": job.request.verb,
            "model": job.request.model,
            "options": job.request.options,
            "state": now.state,
            "cancel_requested": now.cancel,
            "resumable": self._resumes(job) and now.state in (FAILED, CANCELLED, LOST),
            "attempt": now.attempt,
            "created": job.created,
            "started": now.started,
            "finished": now.finished,
            "exit_code": now.exit_code,
            "error": error,
            "progress": progress,
        }

    def readable(self, text: str, job: Job) -> str:
        """A text of the program without the folders of this machine."""
        settings = self._settings
        text = _OTHER_JOB.sub(r"job:\1/", _MODELS.sub("", text))
        return redact(text, {settings.models: "", job.folder: "", settings.work: "work"})

    def close(self) -> None:
        """Stops watching. Jobs go on; the next server adopts them."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    # What happens by itself.

    def _watch(self) -> None:
        while not self._closed:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            try:
                self.look()
            except Exception:
                log.exception("looking after jobs failed; trying again")
                time.sleep(1)

    def look(self) -> None:
        """One look at everything: ended runs are finished, free places are given to the queue."""
        with self._lock:
            running = [job for job in self._jobs.values() if job.now.state == RUNNING]
            for job in running:
                self._look_at(job)
            if time.monotonic() > self._save_again:
                self._save_again = time.monotonic() + 2
                for job in self._jobs.values():
                    if not job.saved:
                        records.save(job)
            free = self._settings.jobs - self.counts()[RUNNING]
            waiting = sorted(
                (job for job in self._jobs.values() if job.now.state == QUEUED),
                key=lambda job: (job.now.queued, job.id),
            )
            for job in waiting[: max(0, free)]:
                self._start(job)

    def _look_at(self, job: Job) -> None:
        child = self._children.get(job.id)
        if child is not None:
            if child.poll() is None:
                self._tell(job)
                return
            del self._children[job.id]
        with records.held(job) as ours:
            if ours:
                self._settle(job)
                return
        self._tell(job)

    def _settle(self, job: Job) -> None:
        """Decides about a run of which no process is left; the caller holds the job's lock."""
        code = records.exit_code(job)
        if code is not None:
            self._finish(job, code)
        elif records.process(job) is None and not job.now.cancel and job.now.losses < MAX_LOSSES:
            # Killed between writing down that it starts and starting: nothing has happened yet.
            self._queue_again(job, job.now.losses + 1)
        elif self._resumes(job) and not job.now.cancel and job.now.losses < MAX_LOSSES:
            log.warning("job %s was killed with its supervisor; it resumes", job.id)
            self._queue_again(job, job.now.losses + 1)
        elif job.now.cancel:
            self._end(job, CANCELLED, None, ("E-STOPPED", "cancelled"))
        else:
            self._end(job, LOST, None, ("E-SERVE-LOST", "the run was killed from outside"))

    def _adopt(self) -> None:
        """Takes over every job that an earlier server left."""
        for folder in sorted(self._folder.iterdir()):
            if folder.name.startswith(".new-"):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            try:
                job = records.load(folder)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.error("job %s is damaged and passed over: %s", folder.name, error)
                continue
            self._jobs[job.id] = job
            if job.key is not None:
                self._keys[job.key] = job.id
            if job.now.state == RUNNING:
                self._look_at(job)
            elif job.now.state == QUEUED and job.now.cancel:
                self._end(job, CANCELLED, None, _NEVER_BEGAN)

    def _start(self, job: Job) -> None:
        settings = self._settings
        now = job.now
        now.state, now.attempt, now.started = RUNNING, now.attempt + 1, time.time()
        with suppress(OSError):
            now.stderr_from = (job.folder / "stderr").stat().st_size
        try:
            (job.folder / "exit").touch(mode=0o600)
            (job.folder / "tmp").mkdir(exist_ok=True)
            link = job.folder / "models"
            if link.is_symlink():
                link.unlink()
            link.symlink_to(settings.models)
            records.write_json(job.folder / "state.json", asdict(now))
        except OSError as error:
            log.error("job %s cannot be started: %s", job.id, error)
            self._end(job, FAILED, 74, ("E-OUT-WRITE", "no room on the disk to start it"))
            return
        command = [self._program]
        if job.request.by_python:
            command = [sys.executable, "-m", "vindex"]
        try:
            self._children[job.id] = subprocess.Popen(
                [
                    sys.executable, "-I", "-S", supervise.__file__, str(job.folder),
                    str(now.attempt), str(settings.grace_seconds), *command,
                    *job.request.arguments,
                ],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True, cwd=job.folder,
                env={
                    **processes.environment(settings.models, self._folder),
                    "TMPDIR": str(job.folder / "tmp"), "NO_COLOR": "1",
                },
            )  # fmt: skip
        except OSError as error:
            log.error("job %s: no process can be started: %s", job.id, error)
            self._end(job, FAILED, 70, ("E-SERVE-PROCESS", "no process can be started"))

    def _finish(self, job: Job, code: int) -> None:
        text = records.tail(job)
        error = error_of_exit(code, text)
        job.now.progress = records.last_progress(text) or job.now.progress
        again = self._resumes(job) and not job.now.cancel and job.now.losses < MAX_LOSSES
        if code in STOPPED and again:
            # Stopped by somebody else, as when the machine is shut down: "run again".
            self._queue_again(job, job.now.losses + 1)
            return
        state = DONE if code == 0 else CANCELLED if job.now.cancel else FAILED
        self._end(job, state, code, error)

    def _end(self, job: Job, state: str, code: int | None, error: tuple[str, str] | None) -> None:
        now = job.now
        now.state, now.exit_code, now.finished = state, code, time.time()
        now.error_id = error[0] if error else None
        now.error_text = self.readable(error[1], job)[:4000] if error else None
        if not records.save(job):
            self.unsaved += 1
        shutil.rmtree(job.folder / "tmp", ignore_errors=True)
        for ending in self.endings:
            ending(job)

    def _queue_again(self, job: Job, losses: int) -> None:
        now = job.now
        records.mark_cancelled(job, False)
        job.now = State(
            attempt=now.attempt, losses=losses, queued=time.time(), progress=now.progress,
            stderr_from=now.stderr_from,
        )  # fmt: skip
        records.save(job)

    def _room(self) -> None:
        if self.counts()[QUEUED] >= MAX_QUEUED:
            raise Problem(
                429, "E-SERVE-QUEUE", f"{MAX_QUEUED} jobs are waiting", {"Retry-After": "30"}
            )

    def _resumes(self, job: Job) -> bool:
        command = self._commands.get(job.request.verb)
        return command is not None and command.resumes

    def _tell(self, job: Job) -> None:
        """SIGTERM, once, to the supervisor of a job that shall end.

        It passes the signal on and kills after its grace. Where it is gone, the program itself
        is told. A supervisor that has not yet said who it is hears of it at the next look;
        numbers that other processes have by now are let alone.
        """
        if not job.now.cancel or (job.id, job.now.attempt) in self._told:
            return
        for role in ("supervisor", "program"):
            known = (records.process(job) or {}).get(role)
            if known is not None and processes.terminate(known["pid"], known["start"]):
                self._told.add((job.id, job.now.attempt))
                return
