"""The portal floor: pages, the API and the command; it decides nothing.

Importing the Celery app here gives every Django process the broker's address for its hints,
while ``portal.client`` stays free of Django.
"""

from django.apps import AppConfig

from .celery import app as celery_app

__all__ = ["PortalConfig", "celery_app"]


class PortalConfig(AppConfig):
    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"
