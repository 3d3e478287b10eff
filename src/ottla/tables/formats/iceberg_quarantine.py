"""The quarantine of an Iceberg table as a table of the same catalog: `orders_quarantine`.

It has the quarantined files where they are. It follows from the ledger, and is brought up to date
after each commit that changes quarantined files: after a crash in between, or if another writer was
first, the next such commit does it. A table of that name that is not ours is left alone.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record

from ottla.tables.columns.rows import quarantine_columns
from ottla.tables.entries import DataFile, whole_files

SUFFIX = "_quarantine"
OF = "ottla.quarantine-of"
"""The property with the location of the table that it is the quarantine of."""

_logger = logging.getLogger(__name__)


def publish_quarantine(
    catalog: Catalog, name: str, location: str, files: Sequence[DataFile]
) -> None:
    """Makes the quarantine's table of the table `name` have these files, and no others."""
    table = _opened(catalog, f"{name}{SUFFIX}", location, is_needed=bool(files))
    if table is None:
        return
    wanted = {f"{location}/{parts[0].path}": parts for parts in whole_files(files)}
    there = {one.file.file_path: one.file for one in table.scan().plan_files()}
    removed = [file for path, file in there.items() if path not in wanted]
    added = [_file(table, path, parts) for path, parts in wanted.items() if path not in there]
    if not added and not removed:
        return
    transaction = table.transaction()
    update = transaction.update_snapshot()
    with update.overwrite() if removed else update.fast_append() as producer:
        for file in removed:
            producer.delete_data_file(file)
        for file in added:
            producer.append_data_file(file)
    try:
        transaction.commit_transaction()
    except CommitFailedException:
        return  # Another writer was first: what is missing comes with the next commit.


def _opened(catalog: Catalog, name: str, location: str, *, is_needed: bool) -> Table | None:
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        return _created(catalog, name, location) if is_needed else None
    if table.properties.get(OF) == location:
        return table
    _logger.warning(
        "%s is a table of something else, so the catalog shows no quarantine of %s; ottla table "
        "read --quarantine does",
        name,
        location,
    )
    return None


def _created(catalog: Catalog, name: str, location: str) -> Table:
    columns = quarantine_columns(with_bytes=True)
    transaction = catalog.create_table_transaction(name, Schema(), properties={OF: location})
    with transaction.update_schema() as update:
        update.union_by_name(columns)
    # The files have no field ids.
    mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
    transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    transaction.commit_transaction()
    return catalog.load_table(name)


def _file(table: Table, path: str, parts: Sequence[DataFile]) -> IcebergFile:
    schema = table.schema()
    bounds = {
        "partition": (min(one.partition for one in parts), max(one.partition for one in parts)),
        "offset": (min(one.first_offset for one in parts), max(one.last_offset for one in parts)),
    }
    fields = {name: schema.find_field(name) for name in bounds}

    def encoded(which: Callable[[tuple[int, int]], int]) -> dict[int, bytes]:
        types: dict[str, Any] = {name: one.field_type for name, one in fields.items()}
        return {
            fields[name].field_id: to_bytes(types[name], which(pair))
            for name, pair in bounds.items()
        }

    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=sum(one.row_count for one in parts),
        file_size_in_bytes=parts[0].size,
        spec_id=table.metadata.default_spec_id,
        lower_bounds=encoded(min),
        upper_bounds=encoded(max),
    )
