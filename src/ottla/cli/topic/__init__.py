"""Print the records of a topic, and compact it: `records` and `compact`."""
