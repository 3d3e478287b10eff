"""What brokers and the controller of a cluster ask a member, one module for each API."""
