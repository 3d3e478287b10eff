"""Transactions as administrators see them (KIP-664)."""

from ottla.coordinator.transaction.requests import TransactionDescription
from ottla.coordinator.transaction.transaction import Transaction


def describe(known: Transaction) -> TransactionDescription:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(known.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionDescription(
        transactional_id=known.transactional_id,
        state=known.state.title,
        producer_id=known.producer_id,
        epoch=known.epoch,
        timeout_ms=known.timeout_ms,
        start_ms=known.start_ms,
        topics=topics,
    )
