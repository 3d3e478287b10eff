"""Settings that clients change while the broker runs: what is on the disks, and what holds."""
