"""A node of a KRaft cluster: its part in the quorum, and what a broker asks the controller."""
