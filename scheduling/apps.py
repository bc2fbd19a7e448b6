"""The scheduling floor: who may hold which card, from when, and why not yet."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"
