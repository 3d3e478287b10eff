"""The metadata of a broker by itself: its log, and what the broker keeps of it."""
