"""One kept HTTP connection to the portal, and the patience to try again.

What may be repeated safely (reading, deleting, a POST with an Idempotency-Key) is repeated when
the connection is lost or the portal says 503, with growing pauses, until ``patience_s`` is over.
Proxies of the environment are not used and redirects not followed: a token goes to the address
it was made for and nowhere else.
"""

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from .errors import ClientError, NoPortal, Refused, Unreachable, Usage

PAUSE_S, PAUSE_MAX_S = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: ``headers`` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises NoPortal if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise NoPortal(f"The answer ({self.status}) is not JSON.") from None


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent; ``safe``: sending it twice does what sending it once does."""

    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    safe: bool
    needs: str


class Connection:
    """To one portal, with one token (or none)."""

    def __init__(self, url: str, token: str, *, timeout_s: float, patience_s: float) -> None:
        if not (token.isascii() and token.isprintable()):
            raise Usage(
                "The token has a character that no token has, such as a line break.",
                next_step="Set GANGWAY_TOKEN anew, or: gangway login",
            )
        self._at = parsed(url)
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._token = token
        self._timeout_s = timeout_s
        self._open: HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        needs: str = "",
    ) -> Reply:
        """Send a request; the answer if it is 2xx. Raises Refused or Unreachable.

        ``needs``: an answer header without which the answer was cut short on its way.
        """
        sent = {"Accept": "*/*", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        safe = method in ("GET", "DELETE") or "Idempotency-Key" in sent
        reply = self._until_answered(Request(method, path, body, sent, safe, needs))
        if not 200 <= reply.status < 300:
            raise self._refusal(reply)
        return reply

    def close(self) -> None:
        """Close the kept connection; the next request opens a new one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _until_answered(self, request: Request) -> Reply:
        until, pause_s = time.monotonic() + self.patience_s, PAUSE_S
        while True:
            kept = self._open is not None and request.safe
            try:
                reply = self._once(request)
                wait_s = _asked_to_wait_s(reply)
                if wait_s is None or not request.safe or time.monotonic() + wait_s > until:
                    return reply
            except (OSError, HTTPException) as lost:
                self.close()
                wait_s = 0.0 if kept else pause_s  # a kept connection may have been closed idle
                hopeless = isinstance(lost, ssl.SSLError) or not request.safe
                if hopeless or time.monotonic() + wait_s > until:
                    raise self._unreachable(lost) from lost
            time.sleep(wait_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    def _once(self, request: Request) -> Reply:
        if not request.safe:
            self.close()
        if self._open is None:
            kind = HTTPSConnection if self._at.scheme == "https" else HTTPConnection
            self._open = kind(self._at.hostname or "", self._at.port, timeout=self._timeout_s)
        path = self._at.path.rstrip("/") + request.path
        self._open.request(request.method, path, request.body, dict(request.headers))
        answer = self._open.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        whole = answer.length is not None or answer.chunked or answer.status == 204
        if not whole or (answer.status == 200 and request.needs not in ("", *found)):
            raise HTTPException("the answer was cut short")
        return Reply(answer.status, found, answer.read())

    def _unreachable(self, lost: Exception) -> Unreachable:
        why = str(lost) or type(lost).__name__
        return Unreachable(
            f"The portal at {self.url} does not answer: {why}.",
            next_step="Check the address (gangway login --url URL) and that the portal runs.",
        )

    def _refusal(self, reply: Reply) -> ClientError:
        if "location" in reply.headers and 300 <= reply.status < 400:
            return ClientError(
                f"The portal sends this address on to {reply.headers['location'][:200]}.",
                next_step="Sign in at the address it names: gangway login --url URL",
            )
        told = _problem(reply)
        fields = told.get("fields")
        return Refused(
            str(told.get("detail", f"{self.url} answered {reply.status}.")),
            next_step=str(told.get("next_step", "Check that the address is a Gangway portal.")),
            status=reply.status,
            code=str(told.get("code", "")),
            fields={str(n): str(why) for n, why in fields.items()}
            if isinstance(fields, dict)
            else {},
        )


def parsed(url: str) -> SplitResult:
    """The address in its parts. Raises Usage unless it is plain http or https."""
    try:
        at = urlsplit(url)
        usable = at.scheme in ("http", "https") and bool(at.hostname) and at.port != 0
        usable = usable and url.isprintable() and " " not in url and at.path.isascii()
        (at.hostname or "").encode("idna")
    except ValueError:
        usable = False
    if not usable or at.username or at.query or at.fragment:
        raise Usage(
            f"{url!r} is not the address of a portal.",
            next_step="Give one such as https://gangway.example.org",
        )
    return at


def _problem(reply: Reply) -> dict[str, Any]:
    if not reply.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    told = reply.json()
    return told if isinstance(told, dict) else {}


def _asked_to_wait_s(reply: Reply) -> float | None:
    """How long the portal asks to wait before the same request is sent again; None: it does not."""
    busy = reply.status == 503 or _problem(reply).get("code") == "idempotency_in_progress"
    if not busy:
        return None
    text = reply.headers.get("retry-after", "1")
    return min(float(text), 30.0) if text.isascii() and text.isdigit() else 1.0
