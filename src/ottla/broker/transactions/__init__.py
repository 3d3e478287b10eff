"""The transaction coordinator: its machine, stored in `__transaction_state`, and the markers."""
