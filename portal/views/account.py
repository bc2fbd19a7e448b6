"""Sign in, sign out, the own password, and the choice of theme."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST
from rest_framework.exceptions import Throttled

from nodes import clock
from portal import guard
from portal.htmx import THEMES, frame
from scheduling import audit
from scheduling.actors import person

from .acts import signed_in
from .errors import refusal

YEAR_S = 365 * 24 * 3600


@method_decorator(login_not_required, name="dispatch")
class SignIn(views.LoginView):
    """Does not say which of name and password was wrong."""

    template_name = "account/signin.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Tries are counted, together with the API's, before the password is looked at."""
        try:
            guard.admit(request.POST.get("username", ""), guard.address_of(request))
        except Throttled as many:
            return refusal(request, str(many.detail), "Then try again.", status=429)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        guard.forgive(form.get_user().get_username(), guard.address_of(self.request))
        return super().form_valid(form)

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        theme = self.request.COOKIES.get("theme", "")
        context = super().get_context_data(**kwargs)
        return context | {"theme": theme if theme in THEMES else ""}


class ChangePassword(views.PasswordChangeView):
    """The own password, by who knows the old one; other sessions end, tokens stay."""

    template_name = "account/password.html"
    success_url = reverse_lazy("home")

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Tries of the old password are counted like tries to sign in."""
        try:
            guard.admit(request.user.get_username(), guard.address_of(request))
        except Throttled as many:
            return refusal(request, str(many.detail), "Then try again.", status=429)
        return super().post(request, *args, **kwargs)

    @transaction.atomic
    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        user = signed_in(self.request)
        guard.forgive(user.get_username(), guard.address_of(self.request))
        audit.note(person(user), "change_password", f"user {user.pk}", at=clock.now())
        messages.success(self.request, "Your password is changed; your tokens stay as they were.")
        return super().form_valid(form)

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(**kwargs) | frame(self.request)


@login_not_required
@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme in a cookie and go back; anything but light or dark follows the system."""
    chosen = request.POST.get("theme", "")
    response = HttpResponseRedirect(back(request))
    if chosen in THEMES:
        response.set_cookie(
            "theme",
            chosen,
            max_age=YEAR_S,
            samesite="Lax",
            httponly=True,
            secure=settings.SESSION_COOKIE_SECURE,
        )
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response


def back(request: HttpRequest) -> str:
    """The page that a form named as its own, if it is one of this site."""
    wanted = request.POST.get("next", "")
    here = {request.get_host()}
    if url_has_allowed_host_and_scheme(wanted, here, require_https=request.is_secure()):
        return wanted
    return "/"
