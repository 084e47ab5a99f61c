from typing import Any

import pytest
from django.core.management.commands import makemessages

from dashboard.management.commands.makemessages import Command


@pytest.mark.parametrize(("domain", "knows"), [("django", False), ("djangojs", True)])
def test_scripts_are_searched_for_the_functions_that_translate(
    domain: str, knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(makemessages.Command, "handle", lambda self, *arguments, **options: None)
    command: Any = Command()
    command.handle(domain=domain)
    assert ("--keyword=choose:2,3" in command.xgettext_options) is knows
