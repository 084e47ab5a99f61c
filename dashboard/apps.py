"""The pages. They read the broker through the public API, like any other client."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "GlassMQ dashboard"
