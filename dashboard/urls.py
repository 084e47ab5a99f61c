"""Addresses of the pages. The live page is the root; include this module last-but-not-under a prefix."""

from django.urls import path

from dashboard import reports_views, views

app_name = "dashboard"
urlpatterns = [
    path("", views.live, name="live"),
    path("reports", reports_views.reports, name="reports"),
    path("favicon.ico", views.favicon, name="favicon"),
]
