"""An open log whose last directory takes no more: producers hear of it at once."""

from pathlib import Path

import pytest

import ottla
from ottla.embedded.environment import Environment
from ottla.embedded.log import open_in
from ottla.testing.broken_disk import BreakableFileSystem
from tests.support.patience import PATIENCE_S

FOR_EVER_MS = 1 << 30


@pytest.mark.parametrize("acks", [1, "all"])
def test_the_producer_whose_request_met_the_full_disk_does_not_wait(
    tmp_path: Path, acks: int | str
) -> None:
    """That request is the last: who asks for the leader after it finds none."""
    disk = BreakableFileSystem()
    environment = Environment(file_system=disk)
    settings = {"acks": acks, "delivery.timeout.ms": FOR_EVER_MS}
    with open_in(environment, str(tmp_path)) as log:
        log.create_topic("orders", partitions=2)
        with ottla.Producer(log, settings=settings) as producer:
            first = producer.send("orders", b"kept", partition=0)
            assert first.result(PATIENCE_S).offset == 0
            disk.fill()
            second = producer.send("orders", b"lost", partition=1)
            with pytest.raises(ottla.StorageError, match="No space left on device"):
                second.result(PATIENCE_S)
            disk.repair()
