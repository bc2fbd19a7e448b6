"""The portal as an object: a method for each thing the API can do.

Answers are the API's JSON as dictionaries (docs/api.md). Every method may raise Refused or
Unreachable. One client is for one thread.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

from . import config
from .connection import Connection, Reply
from .errors import NoPortal

API = "/api/v1"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogPiece:
    """``data`` begins at ``offset``. ``ended``: nothing will follow in this attempt."""

    data: bytes
    offset: int
    next_offset: int
    ended: bool
    attempt: int | None


class Client:
    """A portal and a token; by default those of the environment or of ``gangway login``."""

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        timeout_s: float = 30.0,
        patience_s: float = 3.0,
    ) -> None:
        if not (url and token):
            known = config.load()
            url, token = url or known.url, token or (known.token if url in ("", known.url) else "")
        self.token = token
        self.connection = Connection(url, token, timeout_s=timeout_s, patience_s=patience_s)

    @classmethod
    def login(cls, url: str, username: str, password: str, *, name: str) -> Self:
        """A client with a new token called ``name``, made with a password."""
        anonymous = Connection(url, "", timeout_s=30.0, patience_s=3.0)
        order = {"username": username, "password": password, "name": name}
        made = anonymous.ask("POST", f"{API}/tokens", body=json.dumps(order).encode()).json()
        anonymous.close()
        return cls(url, made["token"])

    def submit(self, order: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a job. Safe over a lost connection; with your own ``key`` over a crash too."""
        return self._post("/jobs", order, key)

    def estimate(self, fields: Mapping[str, Any]) -> Json:
        """How much memory a training run of these figures takes."""
        return self._post("/estimates", fields)

    def preview(self, order: Mapping[str, Any]) -> Json:
        """What an order would meet if it were submitted now; nothing is kept."""
        return self._post("/jobs/preview", order)

    def job(self, job_id: int) -> Json:
        """One job in full."""
        return self._get(f"/jobs/{job_id}")

    def jobs(
        self, *, states: Iterable[str] = (), team: str = "", mine: bool = False, page: int = 100
    ) -> Iterator[Json]:
        """Jobs, newest first, page by page as they are asked for."""
        query = {"state": ",".join(states), "team": team, "mine": str(mine).lower()}
        cursor: str | None = ""
        while cursor is not None:
            known = {**query, "limit": page, "cursor": cursor}
            found = self._get("/jobs?" + urlencode({k: v for k, v in known.items() if v}))
            yield from _results(found)
            cursor = found.get("next_cursor")

    def explain(self, job_id: int) -> Json:
        """Why a job is where it is, who is ahead, and what would start it now."""
        return self._get(f"/jobs/{job_id}/explain")

    def attempts(self, job_id: int) -> list[Json]:
        """The runs of a job."""
        return _results(self._get(f"/jobs/{job_id}/attempts"))

    def cancel(self, job_id: int, *, reason: str = "") -> Json:
        """End a job."""
        return self._post(f"/jobs/{job_id}/cancel", {"reason": reason})

    def hold(self, job_id: int, *, reason: str = "") -> Json:
        """Keep a waiting job from starting."""
        return self._post(f"/jobs/{job_id}/hold", {"reason": reason})

    def release(self, job_id: int, *, reason: str = "") -> Json:
        """Let a held job wait for its turn again."""
        return self._post(f"/jobs/{job_id}/release", {"reason": reason})

    def log(
        self,
        job_id: int,
        *,
        attempt: int | None = None,
        rank: int = 0,
        offset: int = 0,
        limit: int = 65536,
    ) -> LogPiece:
        """At most 64 KiB of a log from ``offset``; negative: from the end."""
        query = {"rank": rank, "offset": offset, "limit": limit}
        if attempt is not None:
            query["attempt"] = attempt
        path = f"{API}/jobs/{job_id}/log?{urlencode(query)}"
        reply = self.connection.ask("GET", path, needs="x-log-ended")
        number = reply.headers.get("x-attempt", "")
        return LogPiece(
            data=reply.body,
            offset=int(reply.headers.get("x-log-offset", offset)),
            next_offset=int(reply.headers.get("x-next-offset", offset)),
            ended=reply.headers.get("x-log-ended") == "true",
            attempt=int(number) if number else None,
        )

    def reserve(self, order: Mapping[str, Any], *, key: str = "") -> Json:
        """Book cards for a slot."""
        return self._post("/reservations", order, key)

    def reservations(self, *, mine: bool = False, since: str = "", until: str = "") -> Json:
        """``results`` of your teams and ``busy`` blocks of all, from now for 14 days."""
        query = {"mine": "true" if mine else "", "since": since, "until": until}
        return self._get("/reservations?" + urlencode({k: v for k, v in query.items() if v}))

    def reservation(self, reservation_id: int) -> Json:
        """One reservation with its cards."""
        return self._get(f"/reservations/{reservation_id}")

    def change_reservation(self, reservation_id: int, change: Mapping[str, Any]) -> Json:
        """Make a reservation different, as a whole."""
        path, sent = f"{API}/reservations/{reservation_id}", json.dumps(change).encode()
        return _object(self.connection.ask("PATCH", path, body=sent))

    def end_reservation(self, reservation_id: int) -> Json:
        """Cancel a reservation, or give it back once it runs."""
        return _object(self.connection.ask("DELETE", f"{API}/reservations/{reservation_id}"))

    def next_free(self, **asked: Any) -> Json:
        """The first slot that would be taken now; ``start`` is None if there is none."""
        return self._get("/reservations/next-free?" + urlencode(asked))

    def nodes(self) -> list[Json]:
        """All machines with their cards."""
        return _results(self._get("/nodes"))

    def teams(self) -> list[Json]:
        """The teams you may see."""
        return _results(self._get("/teams"))

    def me(self) -> Json:
        """Whose token this is."""
        return self._get("/me")

    def tokens(self) -> list[Json]:
        """Your tokens, without what would open the portal."""
        return _results(self._get("/tokens"))

    def create_token(self, name: str) -> Json:
        """A new token; its ``token`` is shown this once."""
        return self._post("/tokens", {"name": name})

    def delete_token(self, prefix: str) -> None:
        """Make a token open nothing any more."""
        self.connection.ask("DELETE", f"{API}/tokens/{quote(prefix, safe='')}")

    def _get(self, path: str) -> Json:
        return _object(self.connection.ask("GET", API + path))

    def _post(self, path: str, body: Mapping[str, Any], key: str = "") -> Json:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        sent = json.dumps(body).encode()
        return _object(self.connection.ask("POST", API + path, body=sent, headers=headers))


def _object(reply: Reply) -> Json:
    found = reply.json()
    if not isinstance(found, dict):
        raise NoPortal(f"The answer ({reply.status}) is not a JSON object.")
    return found


def _results(found: Json) -> list[Json]:
    results = found.get("results")
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        raise NoPortal("The answer has no list of results.")
    return results
