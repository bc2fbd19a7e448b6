"""The Celery app: four queues, early acknowledgement, and the beat that repairs lost hints.

Tasks are doors: short, idempotent, safe to lose and safe to repeat. Nothing here decides.
"""

import os

from celery import Celery
from celery.signals import task_postrun, task_prerun
from django.conf import settings
from django.db import close_old_connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("gangway")
app.conf.update(
    broker_url=settings.REDIS_URL or "redis://127.0.0.1:6379/0",
    result_backend=settings.REDIS_URL or "redis://127.0.0.1:6379/0",
    result_expires=5,
    task_ignore_result=True,
    task_acks_late=False,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "visibility_timeout": 600,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    timezone="UTC",
    # Celery would open a new connection for every task, which costs more than most tasks do.
    CELERY_DB_REUSE_MAX=10**12,
    beat_max_loop_interval=0.5,
    beat_schedule={
        "cycle": {
            "task": "scheduling.run_cycle",
            "args": [True],
            "schedule": 5.0,
            "options": {"queue": "cycle", "expires": 5},
        },
        "reports": {
            "task": "scheduling.take_reports",
            "schedule": 5.0,
            "options": {"queue": "control", "expires": 5},
        },
        "reconcile": {
            "task": "scheduling.reconcile",
            "schedule": 5.0,
            "options": {"queue": "control", "expires": 5},
        },
        "account": {
            "task": "scheduling.account",
            "schedule": 10.0,
            "options": {"queue": "control", "expires": 10},
        },
        "slots": {
            "task": "scheduling.tend_slots",
            "schedule": 2.0,
            "options": {"queue": "control", "expires": 2},
        },
        "look": {
            "task": "scheduling.look_all",
            "schedule": settings.GANGWAY_LOOK_PERIOD_S,
            "options": {"queue": "nodes", "expires": settings.GANGWAY_LOOK_PERIOD_S},
        },
        "probe": {
            "task": "nodes.probe_all",
            "schedule": settings.GANGWAY_PROBE_PERIOD_S,
            "options": {"queue": "nodes", "expires": settings.GANGWAY_PROBE_PERIOD_S},
        },
        "prune": {
            "task": "nodes.prune",
            "schedule": 3600.0,
            "options": {"queue": "control", "expires": 600},
        },
        "prune-keys": {
            "task": "portal.prune",
            "schedule": 3600.0,
            "options": {"queue": "control", "expires": 600},
        },
    },
)
app.autodiscover_tasks(["portal", "scheduling", "nodes"])


@task_prerun.connect
@task_postrun.connect
def _drop_broken_connections(**_: object) -> None:
    """Kept connections as the web keeps them: asked before use, closed when broken or old."""
    close_old_connections()
