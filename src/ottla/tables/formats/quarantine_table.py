"""The quarantine of a Delta table as a Delta table by itself, at `_ottla/quarantine`.

It follows from the ledger, and is brought up to date after each commit that changes quarantined
files: after a crash in between, or if another writer was first, the next such commit does it.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.objects.arrow_store import STORAGE_OPTIONS
from ottla.tables.columns.rows import quarantine_columns
from ottla.tables.entries import QUARANTINE_DIRECTORY, DataFile, whole_files
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG_DIRECTORY = f"{QUARANTINE_DIRECTORY}/_delta_log"


def publish_quarantine(store: TableStore, files: Sequence[DataFile], committed_ms: int) -> None:
    """Makes the quarantine's table have these files, and no others."""
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import RemoveAction

    table = _opened(store)
    wanted = {_relative(parts[0].path): parts for parts in whole_files(files)}
    there = set() if table is None else set(_paths(table))
    added = [_add(path, parts, committed_ms) for path, parts in wanted.items() if path not in there]
    removed = [
        RemoveAction(path, True, committed_ms, 0, {}) for path in there if path not in wanted
    ]
    if not added and not removed:
        return
    try:
        if table is None:
            _create(store, added)
        else:
            table.create_write_transaction([*removed, *added], "append", table.schema(), [])
    except DeltaError:
        return  # Another writer was first: what is missing comes with the next commit.
    store.sync([f"{LOG_DIRECTORY}/{one}" for one in store.names(LOG_DIRECTORY)[-1:]])


def _create(store: TableStore, added: Sequence[Any]) -> None:
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(
        f"{store.address}/{QUARANTINE_DIRECTORY}",
        Schema.from_arrow(quarantine_columns(with_bytes=True)),
        list(added),
        "error",
        [],
        storage_options=STORAGE_OPTIONS if store.is_shared else None,
    )


def _opened(store: TableStore) -> "DeltaTable | None":
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(
            f"{store.address}/{QUARANTINE_DIRECTORY}",
            storage_options=STORAGE_OPTIONS if store.is_shared else None,
        )
    except TableNotFoundError:
        pass
    except (DeltaError, OSError):
        # A power failure left an incomplete entry; the ledger has all that it said.
        for file in store.find(LOG_DIRECTORY):
            store.delete(file.path)
    return None


def _paths(table: "DeltaTable") -> list[str]:
    import pyarrow as pa

    return list(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())


def _relative(path: str) -> str:
    return path.removeprefix(f"{QUARANTINE_DIRECTORY}/")


def _add(path: str, parts: Sequence[DataFile], committed_ms: int) -> Any:
    from deltalake.transaction import AddAction

    partitions = [one.partition for one in parts]
    firsts, lasts = [one.first_offset for one in parts], [one.last_offset for one in parts]
    statistics = {
        "numRecords": sum(one.row_count for one in parts),
        "minValues": {"partition": min(partitions), "offset": min(firsts)},
        "maxValues": {"partition": max(partitions), "offset": max(lasts)},
        "nullCount": {"partition": 0, "offset": 0},
    }
    return AddAction(
        path=path,
        size=parts[0].size,
        partition_values={},
        modification_time=committed_ms,
        data_change=True,
        stats=json.dumps(statistics),
    )
