"""Command line of `vindex-serve`, and what follows from it and from the machine."""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vindex.errors import Error

MAX_BODY_BYTES = 1_000_000
MAX_HEADER_BYTES = 16_384
MAX_QUEUED = 100
# Nothing is measured with less; a budget of 8 is one whose unit was forgotten.
LEAST_RUN_BYTES = 2**20
MAX_JSON_DEPTH = 16
MAX_CONNECTIONS = 256
MAX_EVENT_STREAMS = 128
HEADER_SECONDS = 5.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 15
# The program ends within 20 s of SIGTERM; what has not by then is killed.
GRACE_SECONDS = 30.0

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class Settings:
    """What one server was started with.

    Attributes:
        models, work: folders, absolute and without symbolic links.
        host, port: where it listens; port 0 takes a free one.
        token: what a client must name, or None where everyone on this machine may.
        jobs: runs of the program at once.
        ram_budget: bytes that one run may use, `--ram-budget` of every job.
        hosts: further names that a Host header may have (without a port).
    """

    models: Path
    work: Path
    host: str = "127.0.0.1"
    port: int = 8080
    token: bytes | None = None
    jobs: int = 1
    ram_budget: int = 2**30
    hosts: tuple[str, ...] = ()
    grace_seconds: float = GRACE_SECONDS

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; names other than localhost never count."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_bytes(text: str) -> int:
    """A size as the program spells it: 8GiB, 500MB, 1024. Raises ValueError otherwise."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kKmMgGtT]?)(i?)[bB]?", text.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{text!r} is no size such as 8GiB")
    return int(float(found[1]) * (_BINARY if found[3] else _UNITS)[found[2].lower()])


def memory_limit() -> int:
    """Bytes that this process and its children may use.

    The least of the machine's memory and the limits of its control groups, as far as they can be
    read.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return min(limit for limit in limits if limit > 0)


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, [IPV6]:PORT or :PORT. Raises ValueError otherwise."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address stands in brackets, [::1]:8080")
    return host or "127.0.0.1", int(port)


def read_token(path: str) -> bytes:
    """The token of a file: its first line, 16 to 4096 visible ASCII characters.

    Raises:
        Error: E-SERVE-TOKEN, where it cannot be read, is no regular file, others can read it, or
            it is too short.
    """
    try:
        # Without O_NONBLOCK a pipe waits for a writer, who may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise Error(66, "E-SERVE-TOKEN", f"token file {path}: is no regular file")
            text = file.read(8192).split(b"\n")[0].strip()
    except OSError as error:
        raise Error(66, "E-SERVE-TOKEN", f"token file {path}: {error.strerror}") from None
    if mode & 0o077:
        raise Error(78, "E-SERVE-TOKEN", f"token file {path}: others may read it; chmod 600 it")
    if not 16 <= len(text) <= 4096 or any(not 33 <= byte <= 126 for byte in text):
        raise Error(
            78, "E-SERVE-TOKEN", f"token file {path}: needs one line of 16 or more ASCII characters"
        )
    return text


def _folder(flag: str, text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise Error(66, "E-SERVE-FOLDER", f"{flag} {text}: no such folder")
    real = path.resolve(strict=True)
    if not str(real).isprintable():
        raise Error(78, "E-SERVE-FOLDER", f"{flag} {text!r}: a name with control characters")
    return real


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="vindex-serve",
        description="Serve models, jobs and results of vindex over HTTP.",
        epilog="Example: vindex-serve --models /data/models --work /data/work",
    )
    add = result.add_argument
    add("--models", required=True, metavar="DIR", help="models lie below it; it is only read")
    add("--work", required=True, metavar="DIR", help="jobs and results; the only folder written")
    add("--listen", default="127.0.0.1:8080", metavar="HOST:PORT", help="(default: %(default)s)")
    add("--token-file", metavar="FILE", help="clients name its first line as a bearer token")
    add("--jobs", type=int, default=1, metavar="N", help="runs at once (default: %(default)s)")
    add(
        "--ram-budget",
        metavar="SIZE",
        help="memory of all runs together (default: three quarters of this machine's)",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name of this server, as behind a proxy; may be repeated",
    )
    return result


def _require_values(flags: argparse.Namespace) -> None:
    """An empty value is what an unset variable leaves of a flag, and never what was meant."""
    for name, value in vars(flags).items():
        if "" in (value if isinstance(value, list) else [value]):
            flag = "--" + name.replace("_", "-")
            raise Error(64, "E-USAGE", f"{flag} has an empty value: give one, or leave it out")


def from_arguments(arguments: Sequence[str] | None = None) -> Settings:
    """Settings of a command line.

    Raises:
        Error: what is refused before anything listens, with its exit code.
    """
    flags = parser().parse_args(arguments)
    _require_values(flags)
    try:
        host, port = parse_listen(flags.listen)
        given = flags.ram_budget
        budget = memory_limit() * 3 // 4 if given is None else parse_bytes(given)
    except ValueError as error:
        raise Error(64, "E-USAGE", str(error)) from None
    if not 1 <= flags.jobs <= 64:
        raise Error(64, "E-USAGE", f"--jobs {flags.jobs}: from 1 to 64")
    if budget // flags.jobs < LEAST_RUN_BYTES:
        raise Error(
            64,
            "E-USAGE",
            f"--ram-budget {given}: of {flags.jobs} runs at once, each needs 1MiB at least",
        )
    token = read_token(flags.token_file) if flags.token_file else None
    if not is_loopback(host) and token is None:
        raise Error(
            78,
            "E-SERVE-OPEN",
            f"--listen {flags.listen}: other machines reach it, so it needs --token-file FILE",
        )
    models, work = _folder("--models", flags.models), Path(flags.work)
    try:
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Error(73, "E-SERVE-FOLDER", f"--work {work}: {error.strerror}") from None
    work = _folder("--work", flags.work)
    if work == models or work in models.parents or models in work.parents:
        raise Error(78, "E-SERVE-FOLDER", "--models and --work: neither may lie in the other")
    return Settings(
        models=models,
        work=work,
        host=host,
        port=port,
        token=token,
        jobs=flags.jobs,
        ram_budget=budget // flags.jobs,
        hosts=tuple(name.lower() for name in flags.allow_host),
    )


def own_names(settings: Settings) -> frozenset[str]:
    """Names that a Host header may have, without ports: of loopback, or of this machine.

    An address is added per connection (the one that the client reached, see `guard`).
    """
    names = {settings.host.lower(), *settings.hosts}
    if settings.listens_on_loopback:
        names |= {"localhost", "127.0.0.1", "::1"}
    else:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower(), "localhost"}
    return frozenset(names - {"0.0.0.0", "::"})
