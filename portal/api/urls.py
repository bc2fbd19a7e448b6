"""Every route of /api/v1/; docs/api.md has a section for each, and a test compares the two."""

from django.urls import path, re_path, register_converter
from django.urls.converters import StringConverter

from . import (
    estimates,
    explain,
    job_log,
    jobs,
    quotas,
    reservations,
    schema,
    site,
    tokens,
)


class TokenPrefix(StringConverter):
    """The first 15 characters of a token: enough to know it by, not to use it."""

    regex = "gw_[0-9a-f]{12}"


register_converter(TokenPrefix, "prefix")

urlpatterns = [
    path("jobs", jobs.Jobs.as_view()),
    path("estimates", estimates.Estimates.as_view()),
    path("jobs/preview", explain.Preview.as_view()),
    path("jobs/<int:job_id>", jobs.OneJob.as_view()),
    path("jobs/<int:job_id>/attempts", jobs.JobAttempts.as_view()),
    path("jobs/<int:job_id>/explain", explain.JobReasons.as_view()),
    path("jobs/<int:job_id>/log", job_log.JobLog.as_view()),
    path("jobs/<int:job_id>/cancel", jobs.Cancel.as_view()),
    path("jobs/<int:job_id>/hold", jobs.Hold.as_view()),
    path("jobs/<int:job_id>/release", jobs.Release.as_view()),
    path("reservations", reservations.Reservations.as_view()),
    path("reservations/next-free", reservations.NextFree.as_view()),
    path("reservations/<int:reservation_id>", reservations.OneReservation.as_view()),
    path("nodes", site.Nodes.as_view()),
    path("gpus", site.Gpus.as_view()),
    path("teams", site.Teams.as_view()),
    path("quotas", quotas.Quotas.as_view()),
    path("loans", quotas.Loans.as_view()),
    path("loans/<int:loan_id>/end", quotas.EndLoan.as_view()),
    path("usage", quotas.Usage.as_view()),
    path("me", site.Me.as_view()),
    path("tokens", tokens.Tokens.as_view()),
    path("tokens/<prefix:prefix>", tokens.OneToken.as_view()),
    path("schema", schema.Schema.as_view()),
    re_path("", schema.NothingHere.as_view()),
]
