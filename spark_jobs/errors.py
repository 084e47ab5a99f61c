"""Errors of reports and lakes. Their messages are shown to the user."""


class ReportError(Exception):
    """The message is a whole sentence that also says what to do."""


class NoSparkError(ReportError):
    """There is no pyspark."""


class NoJavaError(ReportError):
    """There is no Java that Spark can use."""


class NotAStoreError(ReportError):
    """The path has no commit log."""


class UnsupportedUrlError(ReportError):
    """A URL names a place that cannot be used here."""


class WindowError(ReportError):
    """The requested window of time is impossible."""


class PassingError(ReportError):
    """The cause may pass within a minute. The report is tried again automatically, a few times."""


class LakeError(ReportError):
    """A lake cannot be read or filled."""


class LakeBusyError(LakeError):
    """Another process is filling the lake."""
