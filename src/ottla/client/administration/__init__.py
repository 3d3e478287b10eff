"""The methods of `Admin`, by noun: topics, settings, groups, quotas, transactions, disks."""
