"""Every address of the site on one page."""

urlpatterns: list[object] = []
