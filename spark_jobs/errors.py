"""Why a report cannot run, in words for whoever asked for it."""


class ReportError(Exception):
    """The message is a whole sentence that says what to do about it."""


class NoSparkError(ReportError):
    """There is no pyspark."""


class NoJavaError(ReportError):
    """There is no Java that Spark can use."""


class NotAStoreError(ReportError):
    """The path has no commit log."""


class UnsupportedUrlError(ReportError):
    """A URL names a place that cannot be used here."""


class WindowError(ReportError):
    """The part of time that was asked for is none."""


class PassingError(ReportError):
    """What may be otherwise in a minute: the report is tried again by itself, a few times."""


class LakeError(ReportError):
    """A lake cannot be read or filled."""


class LakeBusyError(LakeError):
    """Somebody else is filling it."""
