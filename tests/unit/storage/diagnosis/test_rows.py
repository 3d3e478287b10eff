"""The names that programs read in `ottla log dump --json`: they stay as they are."""

from dataclasses import fields

from ottla.storage.diagnosis import rows

NAMES = {
    "file": "kind size",
    "batch": "position base_offset last_offset count size magic compression timestamp_type "
    "base_timestamp max_timestamp producer_id producer_epoch base_sequence last_sequence "
    "partition_leader_epoch is_transactional is_control delete_horizon_ms crc is_valid error",
    "record": "offset timestamp timestamp_type sequence key_size value_size key value headers "
    "control_type coordinator_epoch",
    "offset_index_entry": "offset position",
    "time_index_entry": "timestamp offset",
    "aborted_transaction": "version producer_id first_offset last_offset last_stable_offset",
    "producer": "producer_id producer_epoch coordinator_epoch current_txn_first_offset "
    "last_timestamp first_sequence last_sequence last_offset offset_delta",
    "leader_epoch": "epoch start_offset",
    "checkpoint": "topic partition offset",
    "property": "name value",
    "free": "position size",
    "damage": "position size reason",
}


def test_every_kind_of_line_has_the_type_and_the_names_that_programs_know() -> None:
    every = [one for one in vars(rows).values() if isinstance(one, type)]
    kinds = [one for one in every if issubclass(one, rows.Row) and one is not rows.Row]
    assert {one.TYPE: " ".join(field.name for field in fields(one)) for one in kinds} == NAMES
    assert len(kinds) == len(NAMES)
