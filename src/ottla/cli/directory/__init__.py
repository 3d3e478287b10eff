"""Move data directories in from another Kafka and out to it: `adopt` and `handover`."""
