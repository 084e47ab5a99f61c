"""The bridge as a Django app, which it must be for its management commands."""

from django.apps import AppConfig


class BridgeConfig(AppConfig):
    """Listed before ``channels``, whose ``runworker`` command it extends."""

    name = "bridge"
    verbose_name = "Bridge between the web and the broker's engine"
