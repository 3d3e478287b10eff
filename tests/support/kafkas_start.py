"""What Apache Kafka's start does to the names in a partition's directory, and nothing else of it.

As in `LogLoader` of Kafka 2.8 to 4.1: files on their way out or in go, and so does an index without
its log, which is looked for by the number before the name's first dot.
"""

from ottla.base.files import FileSystem, join
from ottla.storage.files.filenames import log_file_name

INDEXES = (".index", ".timeindex", ".txnindex")


def let_kafka_load(file_system: FileSystem, directory: str) -> None:
    names = file_system.list(directory)
    for name in names:
        is_orphan = name.endswith(INDEXES) and log_file_name(int(name[: name.index(".")]))
        if name.endswith((".deleted", ".cleaned")) or (is_orphan and is_orphan not in names):
            file_system.remove(join(directory, name))
