"""What several rooms' tests share."""

import os
from pathlib import Path

_CANDIDATES = (
    os.environ.get("OTTLA_SHARED"),
    str(Path(__file__).resolve().parents[3] / "shared"),
)

SHARED: Path | None = next(
    (Path(path) for path in _CANDIDATES if path and Path(path).is_dir()), None
)
"""The folder of reference data beside the repository; `None` where there is none."""
