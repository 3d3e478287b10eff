"""`ottla.Producer`: sends an application's records to a topic's partitions, in batches.

`accumulator` collects and decides, without threads and clocks; `sender` sends batches to brokers in
a thread; `producer` and `aio_producer` are for applications.
"""
