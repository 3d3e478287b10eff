"""The replicas that this broker has, and what is done with them."""
