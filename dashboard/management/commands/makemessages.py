"""Django's makemessages, which also knows the functions of ``static/js/text`` that translate."""

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    """One domain at a time: ``-d django`` for templates, ``-d djangojs`` for scripts."""

    def handle(self, *args: object, **options: object) -> None:
        if options["domain"] == "djangojs":
            keywords = ["--keyword=t", "--keyword=noop", "--keyword=plural:2,3", "--keyword=choose:2,3"]
            plain = [f"--flag={name}:1:no-javascript-format" for name in ("t", "noop")]
        else:
            keywords, plain = [], ["--flag=gettext_noop:1:no-python-format"]
        # The places of these texts are {0}, {1} …, so a % is only that.
        self.xgettext_options = [*self.xgettext_options, *keywords, *plain]
        super().handle(*args, **options)
