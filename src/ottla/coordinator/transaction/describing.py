"""Transactions as administrators see them (KIP-664)."""

from ottla.base.partitions import by_topic
from ottla.coordinator.transaction.requests import TransactionDescription
from ottla.coordinator.transaction.transaction import Transaction


def describe(known: Transaction) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=known.transactional_id,
        state=known.state.title,
        producer_id=known.producer_id,
        epoch=known.epoch,
        timeout_ms=known.timeout_ms,
        start_ms=known.start_ms,
        topics=by_topic(known.partitions),
    )
