"""What a full garbage collection looks at.

Python counts references, so almost all objects go at once; only cycles wait for the collector. Now and then it looks
at every object that may be in one, and the broker stands still meanwhile. It must stay on, because libraries and
exceptions make cycles. So it is given little to look at:

- What exists when the broker starts (modules, classes, tables from the disk) stays until the end. ``freeze`` takes it
  out of all later collections.
- What there are 100,000 of, such as held pulls, requests and client connections, is declared ``gc=False``
  (msgspec.Struct): these objects are in no cycle, or in one that the code ends itself.
- A tuple of strings and numbers, such as the fields of an event, is out of the collector's sight after the first
  collection that looks at it. In a busy broker as many tuples go as come, so Python sees no reason for that collection,
  and thousands of them wait for the full one. ``collect_young`` does it four times a second.

Full collections are neither switched off nor done at chosen times: nobody knows a time at which no message arrives, and
the memory of cycles would grow until then.
"""

import gc


def freeze() -> None:
    """Collect once, then let no later collection look at what exists now. For processes, not for tests."""
    gc.collect()
    gc.freeze()


def collect_young() -> None:
    """Collect only what was made since the last collection. Takes about 0.1 ms for 1,000 objects."""
    gc.collect(0)
