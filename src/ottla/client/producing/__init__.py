"""`ottla.Producer`: records from an application to a topic's partitions, batched.

`accumulator` collects and decides, without threads and clocks; `sender` carries batches to brokers
in a thread; `producer` and `aio_producer` are what applications call.
"""
