"""RocketMQ's SQL92 filters: conditions on the properties of messages, such as ``color = 'red' AND size > 3``.

``tokens`` splits an expression, ``selector_parser`` reads it, and ``expressions`` evaluates it.
"""
