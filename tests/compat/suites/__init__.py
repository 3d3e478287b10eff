"""Test suites that others wrote for Kafka, pointed at `ottla serve`: run by `make compat`."""
