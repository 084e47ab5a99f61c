"""Pages: Django's admin and the dashboard. The API's routes are in ``api.routing`` and never reach Django."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]
