"""The extension file of a queue that was written with enableConsumeQueueExt. It is read, never written."""

from broker_core.formats.consume_queue_ext_unit import ConsumeQueueExtUnit, decode, offset_of
from broker_core.store.mapped_file_queue import MappedFileQueue


class ConsumeQueueExt:
    """RocketMQ's ConsumeQueueExt."""

    def __init__(self, mapped_files: MappedFileQueue) -> None:
        self._mapped_files = mapped_files
        self.steps = mapped_files.load()

    def unit(self, address: int) -> ConsumeQueueExtUnit | None:
        """The unit that a queue's tagsCode field points to; None when it is gone."""
        offset = offset_of(address)
        file = self._mapped_files.find(offset)
        return None if file is None else decode(file.buffer, offset - file.base)
