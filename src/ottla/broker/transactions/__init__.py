"""Transactions: their machine, run over `__transaction_state`, and their markers."""
