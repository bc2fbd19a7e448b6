"""What is only ever added, so only ever read: the audit log and the jobs' log."""

from django.contrib import admin

from scheduling.models import AuditEntry, JobLog

from .scope import ReadOnly
from .site import site


@admin.register(AuditEntry, site=site)
class AuditEntryAdmin(ReadOnly):
    list_display = ("at", "actor", "verb", "subject", "team", "reason")
    list_filter = ("verb", ("team", admin.RelatedOnlyFieldListFilter))
    search_fields = ("actor", "subject", "reason")
    list_select_related = ("team",)
    fields = ("at", "actor", "verb", "subject", "team", "reason", "facts")


@admin.register(JobLog, site=site)
class JobLogAdmin(ReadOnly):
    list_display = ("at", "job", "event", "from_state", "to_state", "actor", "note")
    list_filter = ("event",)
    search_fields = ("=job__id", "actor")
    list_select_related = ("job",)
    fields = ("at", "job", "event", "from_state", "to_state", "attempt", "actor", "note")
