"""A process that appends to a log and says what it was told, until somebody kills it.

`python -m tests.crash.writer DIRECTORY SEED` writes a line "acknowledged NEXT_OFFSET" for every
batch, and "flushed NEXT_OFFSET" for every flush. The value of each record is its offset.
"""

import itertools
import random
import sys

import ottla
from ottla.codec.compression import Compression

SETTINGS = {"log.segment.bytes": 20_000, "log.index.interval.bytes": 500}


def main(directory: str, seed: int) -> None:
    chance = random.Random(seed)
    with ottla.open(directory, SETTINGS) as log:
        if "t" not in log.topics():
            log.create_topic("t")
        for _ in itertools.count():
            next_offset = log.offsets("t")[0][1]
            compression = chance.choice(list(Compression))
            builder = ottla.RecordBatchBuilder(compression=compression)
            for offset in range(next_offset, next_offset + chance.randint(1, 20)):
                builder.append(b"k", b"%d" % offset, 1_700_000_000_000 + offset)
            log.append_batch("t", 0, builder)
            say("acknowledged", log)
            if chance.random() < 0.05:
                log.flush()
                say("flushed", log)


def say(what: str, log: ottla.Log) -> None:
    sys.stdout.write(f"{what} {log.offsets('t')[0][1]}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
