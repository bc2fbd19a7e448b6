"""For whoever watches the portal: is the process up, and can it do its work."""

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Touches nothing else."""
    return JsonResponse({"up": True})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when database, broker and migrations are in order; else 503 and which is not."""
    checks = {name: _try(check) for name, check in CHECKS.items()}
    ready = all(word == "ok" for word in checks.values())
    return JsonResponse({"ready": ready, "checks": checks}, status=200 if ready else 503)


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _redis() -> str:
    cache.set("readyz", "ok", timeout=10)
    return "ok"


def _migrations() -> str:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"{len(missing)} not applied" if missing else "ok"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "redis": _redis,
    "migrations": _migrations,
}


def _try(check: Callable[[], str]) -> str:
    """What is not reachable is named by its kind; addresses stay inside."""
    try:
        return check()
    except (DatabaseError, RedisError, OSError) as gone:
        return f"not reachable ({type(gone).__name__})"
