"""`ottla transactions`: the transactions of a running broker, and an end for one that hangs.

Kafka's counterpart: `kafka-transactions` (KIP-664).
"""

import click

from ottla.cli.main import LazyGroup

COMMANDS = {
    "list": (
        "ottla.cli.transactions.list:list_command",
        "Print transactional ids with their states.",
    ),
    "describe": (
        "ottla.cli.transactions.list:describe_command",
        "Say how transactional ids stand, and where they write.",
    ),
    "find-hanging": (
        "ottla.cli.transactions.hanging:find_hanging_command",
        "Find open transactions that no coordinator will end.",
    ),
    "abort": (
        "ottla.cli.transactions.hanging:abort_command",
        "End a transaction: by its id, or where it hangs.",
    ),
}


class TransactionsGroup(LazyGroup):
    table = COMMANDS


@click.group("transactions", cls=TransactionsGroup)
def transactions_group() -> None:
    """See a running broker's transactions, and end one that hangs."""
