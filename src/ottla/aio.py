"""Ottla for an event loop: the classes of `ottla` with the same names, whose waiting methods are
coroutines.

    async with ottla.aio.Consumer("127.0.0.1:9092", group="billing") as consumer:
        consumer.subscribe("orders")
        async for record in consumer:
            handle(record.key, record.value)
"""

from ottla.client.administration.aio_admin import Admin
from ottla.client.consumer.aio_consumer import Consumer
from ottla.client.producing.aio_producer import Producer
from ottla.client.producing.sending import AwaitableSending
from ottla.client.sharing.aio_share_consumer import ShareConsumer

__all__ = ["Admin", "AwaitableSending", "Consumer", "Producer", "ShareConsumer"]
