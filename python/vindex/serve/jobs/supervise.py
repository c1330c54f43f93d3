"""The process beside every run of the program: starts it, passes a stop on, keeps its exit code.

It outlives the server, so that a run that ends while no server is there is still known. It is run
as a file, with nothing of this package imported:

    python -I -S supervise.py FOLDER ATTEMPT GRACE_SECONDS PROGRAM ARGUMENTS...

What it leaves in FOLDER, the folder of a job:
    lock             held (flock) while it or the program lives, so that no second run can begin
    process-N.json   process ids and start times of both, of attempt N
    exit-N-CODE      made of the file `exit` by renaming, which needs no room on a full disk;
                     CODE is 128 + S after signal S
    stdout, stderr   of the program, appended

It does nothing where another one holds the lock, or where state.json has gone on to another
attempt: a server that died in the act of starting may have been followed by one that started anew.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


def start_time(pid: int) -> int:
    """Clock ticks from boot to the start of a process.

    It tells the process from a later one of that number; -1 where there is none or it is only
    waiting to be collected.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in ("Z", "X") else int(fields[19])


def _write(name: str, value: object) -> None:
    with open(f"{name}.tmp", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{name}.tmp", name)


def _is_current(attempt: int) -> bool:
    with open("state.json", encoding="utf-8") as file:
        state = json.load(file)
    begun = any(name.startswith(f"exit-{attempt}-") for name in os.listdir("."))
    return bool(state["state"] == "running" and state["attempt"] == attempt and not begun)


def _run(attempt: int, grace: float, command: list[str], lock: int) -> int:
    me = {"pid": os.getpid(), "start": start_time(os.getpid())}
    _write(f"process-{attempt}.json", {"supervisor": me})
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        # A program whose supervisor was killed would go on with nobody to stop it.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)

    with open("stdout", "ab") as out, open("stderr", "ab") as err:
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            pass_fds=(lock,), preexec_fn=prepare,
        )  # fmt: skip
    with contextlib.suppress(OSError):
        child = {"pid": program.pid, "start": start_time(program.pid)}
        _write(f"process-{attempt}.json", {"supervisor": me, "program": child})
    deadline = None
    while program.poll() is None:
        left = 5.0 if deadline is None else max(0.1, min(5.0, deadline - time.monotonic()))
        got = signal.sigtimedwait(WATCHED, left)
        if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
            if deadline is None:
                program.terminate()
                deadline = time.monotonic() + grace
        elif deadline is not None and time.monotonic() >= deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    code = program.returncode
    return code if code >= 0 else 128 - code


def main() -> int:
    """The process; see above."""
    folder, attempt, grace = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    os.chdir(folder)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    if not _is_current(attempt):
        return 0
    try:
        code = _run(attempt, grace, sys.argv[4:], lock)
    except (FileNotFoundError, PermissionError):
        code = 66
    except OSError:
        code = 74
    os.rename("exit", f"exit-{attempt}-{code}")
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(here)
    return 0


if __name__ == "__main__":
    sys.exit(main())
