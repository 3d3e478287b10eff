"""Which segments go, and why: pure verdicts, short deeds."""
