"""The group coordinator: its machine, stored in `__consumer_offsets`."""
