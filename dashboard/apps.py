"""The pages: they read the broker through the public API, like anyone else."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "GlassMQ dashboard"
