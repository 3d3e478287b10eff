"""Tables: data files, the log of a format that names them, and a ledger of what was loaded.

This is the door: other rooms import names from here, and none of the modules below. A load does

    with table.claim():
        state = table.state()                # what is loaded up to where, and the layout
        transaction = begin(table, state, options, layout=layout)
        writer = record_writer(transaction, topic, partition_count)   # for tasks, in any process
        ...
        commit(transaction, transaction.written(paths), ranges)

`optimize` and `vacuum` keep a table small; `Table.files` reads its data files. The modules are
imported when one of their names is used.
"""

# ruff: noqa: F401
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.tables.columns.flat import as_read, stored_path
    from ottla.tables.columns.identity import RowOrder, Upsert, version_of
    from ottla.tables.columns.partitions import Partitioning, parse_partitioning
    from ottla.tables.columns.rows import IS_CURRENT, VALID_FROM, VALID_TO, quarantine_columns
    from ottla.tables.columns.statistics import LeafStatistics
    from ottla.tables.commits import begin, commit, record_writer
    from ottla.tables.entries import (
        Action,
        DataFile,
        FileRole,
        Forgotten,
        LedgerEntry,
        LoadedPartition,
        MergeCounts,
        by_partition,
        loaded_partitions,
        of_role,
        rows_only,
        total_size,
        whole_files,
    )
    from ottla.tables.files.data_files import DataFiles, interleaved
    from ottla.tables.files.data_set import data_set
    from ottla.tables.files.forgotten import ForgottenPlaces
    from ottla.tables.files.parquet_files import TARGET_SIZE
    from ottla.tables.formats.transaction_log import CommitTakenError, Contents, whole_paths
    from ottla.tables.layout import LayoutOptions, TableLayout
    from ottla.tables.ledger.completeness import (
        HOUR_MS,
        CompleteHour,
        begins_a_new_hour,
        complete_hours,
    )
    from ottla.tables.ledger.coverage import Piece, covered, first_gap, parts_of
    from ottla.tables.ledger.ledger import TableState
    from ottla.tables.maintenance.forgetting import (
        ConditionRecord,
        ForgetOptions,
        ForgetReport,
        count_matching,
        forget,
    )
    from ottla.tables.maintenance.optimize import OptimizeOptions, OptimizeReport, optimize
    from ottla.tables.maintenance.sorting import SortColumn
    from ottla.tables.maintenance.vacuum import VacuumReport, vacuum
    from ottla.tables.schemas import (
        given_schema,
        header_columns,
        needs_sample,
        requested_layout,
        sampled_layout,
    )
    from ottla.tables.stores.store import ICEBERG, TableStore, check_location, open_store
    from ottla.tables.table import Table, columns_of
    from ottla.tables.upserts.resolution import keyed_rows
    from ottla.tables.upserts.upserting import LEAST_ROWS
    from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
    from ottla.tables.values.projection import Projection
    from ottla.tables.values.record_decoder import (
        HEADER,
        KEY,
        VALUE,
        RecordDecoder,
        RecordDecoding,
    )
    from ottla.tables.writing.change_rows import IS_DELETED, MERGE_KEY, RANK, ChangeMaker
    from ottla.tables.writing.engine import Engine, OnTasks, Work, shared_out
    from ottla.tables.writing.progress import OnProgress, Progress, Step
    from ottla.tables.writing.record_rows import RowBuilder
    from ottla.tables.writing.record_writer import OnError, RecordWriter
    from ottla.tables.writing.transaction import ReadRanges, Transaction, WriteOptions

_NAMES = {
    "columns.flat": "as_read stored_path",
    "columns.identity": "RowOrder Upsert version_of",
    "columns.partitions": "Partitioning parse_partitioning",
    "columns.rows": "IS_CURRENT VALID_FROM VALID_TO quarantine_columns",
    "columns.statistics": "LeafStatistics",
    "commits": "begin commit record_writer",
    "files.data_files": "DataFiles interleaved",
    "files.forgotten": "ForgottenPlaces",
    "files.data_set": "data_set",
    "files.parquet_files": "TARGET_SIZE",
    "formats.transaction_log": "CommitTakenError Contents whole_paths",
    "layout": "LayoutOptions TableLayout",
    "ledger.completeness": "HOUR_MS CompleteHour begins_a_new_hour complete_hours",
    "ledger.coverage": "Piece covered first_gap parts_of",
    "entries": (
        "Action DataFile FileRole Forgotten LedgerEntry LoadedPartition MergeCounts by_partition "
        "loaded_partitions of_role rows_only total_size whole_files"
    ),
    "ledger.ledger": "TableState",
    "maintenance.forgetting": ("ConditionRecord ForgetOptions ForgetReport count_matching forget"),
    "maintenance.optimize": "OptimizeOptions OptimizeReport optimize",
    "maintenance.sorting": "SortColumn",
    "schemas": "given_schema header_columns needs_sample requested_layout sampled_layout",
    "stores.store": "ICEBERG TableStore check_location open_store",
    "table": "Table columns_of",
    "upserts.resolution": "keyed_rows",
    "upserts.upserting": "LEAST_ROWS",
    "maintenance.vacuum": "VacuumReport vacuum",
    "values.decoder": "Decoding Envelope ValueFormat",
    "values.projection": "Projection",
    "values.record_decoder": "HEADER KEY VALUE RecordDecoder RecordDecoding",
    "writing.change_rows": "IS_DELETED MERGE_KEY RANK ChangeMaker",
    "writing.engine": "Engine OnTasks Work shared_out",
    "writing.progress": "OnProgress Progress Step",
    "writing.record_rows": "RowBuilder",
    "writing.record_writer": "OnError RecordWriter",
    "writing.transaction": "ReadRanges Transaction WriteOptions",
}
"""The modules of the names."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # A checker would take any name as one of this module.

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'ottla.tables' has no attribute {name!r}")
        return getattr(importlib.import_module(f"ottla.tables.{_HOME[name]}"), name)
