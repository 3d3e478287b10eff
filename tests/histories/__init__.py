"""Real clients in processes of their own against a real broker, both hurt by seed, and judged.

Start at `trial.py`. `python -m tests.histories SEED SECONDS` runs one.
"""
