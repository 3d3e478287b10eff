"""The ledger: what a table's log cannot express of each commit, and what follows from it."""
