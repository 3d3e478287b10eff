"""Quotas, measured rates, and throttled clients."""
