"""Tells letters that someone mended in vain."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.base.partitions import TopicPartition
from ottla.loading.job import LoadJob
from ottla.loading.letter_source import Letters
from ottla.tables import OnError, RowBuilder, TableLayout

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger(__name__)


def without_wrong(job: LoadJob, layout: TableLayout, letters: Letters, aside: Letters) -> Letters:
    """The letters but for those that were mended and cannot be decoded either, each of which is
    logged; all of them if a record that cannot be decoded ends the redrive. `aside` are the records
    as they are in quarantine.

    Such a letter would take the place of its record there, from which the next redrive then told
    letters apart: it would read the record's own letter in place of the mended one, and so on.
    """
    import pyarrow as pa

    if job.options.on_error is OnError.FAIL:
        return letters
    builder = RowBuilder(job.route.topic, layout.record_decoding, job.options.layout.login)
    found = {}
    for place, rows in letters.rows.items():
        wrong = dict(_wrong(builder, place, rows, _values(aside, place)))
        for offset, fault in wrong.items():
            _logger.warning(
                "%s, offset %d: the letter that was sent in its place cannot be decoded either, so "
                "the record stays in quarantine as it was: %s",
                *(place, offset, fault),
            )
        is_sound = pa.array([one not in wrong for one in rows["offset"].to_pylist()], pa.bool_())
        if (kept := rows.filter(is_sound)).num_rows:
            found[place] = kept
    return Letters(found)


def _values(letters: Letters, place: TopicPartition) -> dict[int, bytes | None]:
    rows = letters.rows.get(place)
    if rows is None:
        return {}
    return dict(zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True))


def _wrong(
    builder: RowBuilder, place: TopicPartition, rows: "pa.Table", was: dict[int, bytes | None]
) -> Iterator[tuple[int, str]]:
    """The offsets of mended letters that cannot be decoded, and why."""
    for batch in rows.combine_chunks().to_batches():
        _, decoded = builder.rows(batch, place.partition)
        for index, fault in decoded.faults.items():
            offset = batch.column("offset")[index].as_py()
            if offset not in was or batch.column("value")[index].as_py() != was[offset]:
                yield offset, fault
