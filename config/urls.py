"""Pages: the dashboard and Django's admin. The API's routes are in ``api.routing``, before Django."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]
if find_spec("dashboard.urls"):
    urlpatterns.append(path("", include("dashboard.urls")))
