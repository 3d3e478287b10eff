"""One trial by hand: `python -m tests.histories SEED SECONDS [ROLES]`, of those in `ROLES` here."""

import logging
import sys
import tempfile
from pathlib import Path

from ottla.testing.history import check
from tests.histories.trial import (
    EXACTLY_ONCE,
    GROUP_PAUSES_S,
    IDEMPOTENT,
    JAVA_PAUSES_S,
    JAVA_TRANSACTIONAL,
    TRANSACTIONAL,
    Trial,
)

ROLES = {
    "idempotent": IDEMPOTENT,
    "transactional": TRANSACTIONAL,
    "java": JAVA_TRANSACTIONAL,
    "exactly_once": EXACTLY_ONCE,
}


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    roles = ROLES[sys.argv[3] if len(sys.argv) > 3 else "idempotent"]
    directory = Path(tempfile.mkdtemp(prefix="ottla-history-"))
    trial = Trial(directory=directory, seed=seed, seconds=seconds, roles=roles)
    if roles is EXACTLY_ONCE:
        trial.pauses_s = GROUP_PAUSES_S
    if roles is JAVA_TRANSACTIONAL:
        trial.pauses_s = JAVA_PAUSES_S
    history = trial.run()
    findings = check(history)
    kinds = {kind: sum(type(one).__name__ == kind for one in history) for kind in
             ("Send", "Poll", "Begin", "End", "CommitOffsets", "Assign")}  # fmt: skip
    print(f"seed {seed}: {dict(trial.done)}; {kinds}; {len(findings)} findings; in {directory}")
    for finding in findings[:20]:
        print(finding)
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
