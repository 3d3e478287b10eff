"""Share groups in a broker: the coordinator of their states, and who asks it."""
