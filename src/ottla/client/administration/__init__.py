"""What `Admin` asks brokers, by noun: topics, settings, groups, quotas, transactions, disks."""
