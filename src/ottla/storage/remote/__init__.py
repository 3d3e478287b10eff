"""The remote tier of logs (KIP-405): which segments lie there, how, and how they are read."""
