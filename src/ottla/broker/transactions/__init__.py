"""Transactions: their machine, backed by `__transaction_state`, and their markers."""
