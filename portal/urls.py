"""Every address of the site on one page."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path

from .admin import site
from .api.metrics import Metrics
from .views import account, acts, estimate, feed, health, home, jobs, nodes, reservations, submit

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("find/", jobs.find, name="find"),
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/new/", submit.job_new, name="job-new"),
    path("jobs/estimate/", estimate.job_estimate, name="job-estimate"),
    path("jobs/preview/", submit.job_preview, name="job-preview"),
    path("jobs/<int:job_id>/", jobs.job_detail, name="job-detail"),
    path("jobs/<int:job_id>/log", jobs.job_log, name="job-log"),
    path("jobs/<int:job_id>/sooner", jobs.job_sooner, name="job-sooner"),
    path("jobs/<int:job_id>/cancel/", acts.job_cancel, name="job-cancel"),
    path("jobs/<int:job_id>/hold/", acts.job_hold, name="job-hold"),
    path("jobs/<int:job_id>/release/", acts.job_release, name="job-release"),
    path("reservations/", reservations.reservation_list, name="reservation-list"),
    path("reservations/check/", reservations.reservation_check, name="reservation-check"),
    path("reservations/feed/", feed.feed_new, name="feed-new"),
    path("reservations/feed/<str:secret>.ics", feed.feed, name="feed"),
    path("reservations/<int:reservation_id>/", reservations.reservation_detail, name="reservation"),
    path(
        "reservations/<int:reservation_id>/end/",
        reservations.reservation_end,
        name="reservation-end",
    ),
    path("nodes/", nodes.node_list, name="node-list"),
    path("nodes/<str:name>/", nodes.node_detail, name="node-detail"),
    path("nodes/<str:name>/work/", nodes.node_switch, name="node-switch"),
    path("nodes/<str:name>/alarm/", nodes.node_clear_alarm, name="node-clear-alarm"),
    path("signin/", account.SignIn.as_view(), name="signin"),
    path("signout/", LogoutView.as_view(), name="signout"),
    path("password/", account.ChangePassword.as_view(), name="password"),
    path("theme/", account.set_theme, name="theme"),
    path("admin/", site.urls),
    path("api/v1/", include("portal.api.urls")),
    path("healthz", health.healthz, name="healthz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("readyz", health.readyz, name="readyz"),
]

handler400 = "portal.views.errors.bad_request"
handler403 = "portal.views.errors.forbidden"
handler404 = "portal.views.errors.not_found"
handler500 = "portal.views.errors.failed"
