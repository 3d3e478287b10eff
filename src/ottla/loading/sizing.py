"""How large a load's files become: rows to a task, from bytes to a row.

A task writes one file (or one to each directory by time), so its rows are chosen for the size.
"""

import math
from os import cpu_count

TARGET_SIZE = 128 * 1024 * 1024
"""Bytes of Parquet in a file: what engines read in one go."""

LEAST_ROWS = 20_000
"""Rows below which a task of its own costs more than it saves."""


def rows_per_task(count: int, row_size: float, target_size: int, min_tasks: int | None) -> int:
    """Offsets that a task reads at the most.

    As many as make a file of the target's size; fewer when cores would be left without work.
    """
    fair = math.ceil(count / (min_tasks or cpu_count() or 1))
    wanted = max(1, int(target_size / max(row_size, 1.0)))
    return max(1, min(wanted, fair if min_tasks else max(fair, LEAST_ROWS)))
