"""What every request passes before a route sees it, and every answer before it is sent.

In this order: the Host header (rebinding of names), the token, the origin of writes, the size of
the body. Around all of it: headers of answers, counting.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import time
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vindex.serve.metrics import Metrics
from vindex.serve.problems import Problem, not_found
from vindex.serve.settings import (
    BODY_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    Settings,
    own_names,
)

COOKIE = "vindex_session"
SAFE = ("GET", "HEAD", "OPTIONS")
# What a browser needs before it can have a token, and what holds nothing of anyone's.
OPEN_PATHS = ("/", "/health", "/metrics", "/openapi.json", "/session")
OPEN_PREFIX = "/page/"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ANSWER_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-store",
}
# What the last part of an address names.
_NAMED = {"/v1/models/": "model", "/v1/jobs/": "job", "/v1/results/": "job"}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")


class Access:
    """Who may ask: names of this server, the token, and the cookie that stands for it."""

    def __init__(self, settings: Settings) -> None:
        self._names = own_names(settings)
        self._extra = frozenset(settings.hosts)
        self.token = settings.token

    def session(self) -> str:
        """Value of the cookie: made from the token, so it lasts over restarts and ends with it."""
        return hmac.new(self.token or b"", b"vindex-serve session", hashlib.sha256).hexdigest()

    def is_token(self, text: str) -> bool:
        """Whether a text is the token, in a time that says nothing about it."""
        given = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        return self.token is not None and hmac.compare_digest(
            given, hashlib.sha256(self.token).digest()
        )

    def check_host(self, headers: Headers, server: tuple[str, int | None]) -> str:
        """The Host header where it is this server's own; Problem 421 otherwise.

        The address that a client has reached counts as a name: a name of somebody else that is
        made to point here never equals it.
        """
        given = headers.getlist("host")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if found is not None:
            name = found[1].strip("[]").lower()
            port = int(found[2] or 80)
            if name in self._extra or (
                (name in self._names or _same_address(name, server[0])) and port == server[1]
            ):
                return given[0].lower()
        raise Problem(421, "E-SERVE-HOST", "this server has another name (see --allow-host)")

    def check_token(self, headers: Headers) -> None:
        """Problem 401 unless the request has the token or its cookie."""
        if self.token is None:
            return
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(text.strip()):
            return
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and hmac.compare_digest(
            cookie.value.encode("utf-8", "replace"), self.session().encode("ascii")
        ):
            return
        raise Problem(
            401, "E-SERVE-TOKEN", "a bearer token is needed", {"WWW-Authenticate": "Bearer"}
        )


def _same_address(name: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return False


def check_origin(headers: Headers, scheme: str, host: str) -> None:
    """Problem 403 where a browser says that another page makes the request."""
    origin = headers.get("origin")
    # A proxy in front may speak https where this server does not.
    if origin is not None and origin.lower() not in (f"{scheme}://{host}", f"https://{host}"):
        raise Problem(403, "E-SERVE-ORIGIN", "a request of another page")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem(403, "E-SERVE-ORIGIN", "a request of another page")


async def _body(receive: Receive, headers: Headers) -> bytes:
    """The whole body. Raises Problem: 413, 415, 408."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "E-SERVE-ENCODING", "bodies are taken as they are, not compressed")
    large = Problem(413, "E-SERVE-SIZE", f"at most {MAX_BODY_BYTES} bytes", {"Connection": "close"})
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
        raise large
    result = bytearray()

    async def read() -> None:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            result.extend(message.get("body", b""))
            if len(result) > MAX_BODY_BYTES:
                raise large
            if not message.get("more_body", False):
                return

    try:
        await asyncio.wait_for(read(), BODY_SECONDS)
    except TimeoutError:
        raise Problem(408, "E-SERVE-SLOW", "the body took too long") from None
    except asyncio.TimeoutError:
        raise Problem(408, "E-SERVE-SLOW", "the body took too long") from None
    return bytes(result)


class Guard:
    """The application as it is served."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._access = Access(settings)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admits or refuses one request, and counts its answer."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in ANSWER_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            try:
                receiving = await self._admit(scope, receive)
            except Problem as problem:
                await problem.response()(scope, receive, sending)
            else:
                await self._app(scope, receiving, sending)
        finally:
            route = getattr(scope.get("route"), "path_format", "other")
            self._metrics.count(scope["method"], route, status, time.perf_counter() - begin)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > MAX_HEADER_BYTES:
            raise Problem(431, "E-SERVE-SIZE", f"headers: at most {MAX_HEADER_BYTES} bytes")
        host = self._access.check_host(headers, scope["server"])
        path = scope["path"]
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
            # Patterns of routes end before a last line feed and would take it for another name.
            kind = next((what for start, what in _NAMED.items() if path.startswith(start)), "page")
            raise not_found(kind)
        if path not in OPEN_PATHS and not path.startswith(OPEN_PREFIX):
            self._access.check_token(headers)
        if scope["method"] in SAFE:
            return receive
        check_origin(headers, scope["scheme"], host)
        body = await _body(receive, headers)
        given = False

        async def receiving() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return receiving
