"""Alerts: rules about groups and brokers, and messages about what they find."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "alerts"
    verbose_name = "GlassMQ alerts"
