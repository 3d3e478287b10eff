"""Whatever a client states wrongly under a right checksum is refused, repaired or harmless.

Field by field and byte by byte, in each codec and format: what is stored can be read by our reader
and by those of three clients, with one offset after the other, and so can what comes after it.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from aiokafka.record import MemoryRecords as MemoryRecordsOfAiokafka
from kafka.record import MemoryRecords
from kio.records.readers import read_batch

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.compression import Compression, compress
from ottla.codec.crc32c import crc32c
from ottla.codec.varint import write_varint
from ottla.config.topic import TopicConfig
from ottla.record import walk
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.columns import decode_columns
from ottla.record.layout import HEADER
from ottla.record.legacy import CRC_END, ENTRY, build_message
from ottla.record.record import read_records, unpacked_payload
from ottla.storage.log.append import InvalidRecordsError
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, batch, open_log, read_all, values
from tests.support.old_messages import build_wrapper

pytestmark = pytest.mark.slow

BYTES = (0x00, 0x01, 0x02, 0x03, 0x05, 0x07, 0x0F, 0x10, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
NUMBERS = (-(2**31), -3, -2, -1, 0, 1, 2, 3, 4, 63, 64, 127, 128, 2**20, 2**31 - 1)
LAST_MS_OF_9999 = 253_402_300_799_999
CODECS = list(Compression)
OLD_CODECS = [one for one in Compression if one is not Compression.ZSTD]

ANSWERS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""What Kafka's `LogValidator` and `UnifiedLog` answer."""


def honest() -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    builder.append(b"key", b"value", NOW_MS, [("name", b"header"), ("none", None)])
    builder.append(None, b"", NOW_MS + 70, ())
    builder.append(b"", None, NOW_MS + 3, [("", b"")])
    return builder


def of_records(records: bytes, codec: Compression, count: int = 3) -> bytearray:
    """The honest batch's header over some records, which may be whatever they like."""
    payload = bytes(compress(codec, records))
    made = bytearray(honest().build())[: HEADER.size] + payload
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    struct.pack_into(">i", made, 23, count - 1)
    struct.pack_into(">i", made, 57, count)
    return made


def signed(made: bytearray) -> bytearray:
    """With the checksum of what is there, whatever the header says of its size."""
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return made


class Consumers:
    """A log that is appended to, and all who read it."""

    def __init__(self, config: TopicConfig | None = None) -> None:
        self.log: PartitionLog = open_log(FakeFileSystem(), config or TopicConfig())
        self.accepted = 0
        self.refused = 0

    def send(self, records: bytearray) -> None:
        """Whatever becomes of it, all that is stored can be read."""
        log = self.log
        before = log.log_end_offset
        code = self.append(records)
        if code is not None:
            assert code in ANSWERS
            assert log.log_end_offset == before
            self.refused += 1
            return
        self.accepted += 1
        log.writer.write_out()
        self.read_from(before)

    def append(self, records: bytearray) -> ErrorCode | None:
        """The code of a refusal."""
        try:
            self.log.writer.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
        except ApiError as error:
            return error.code
        return None

    def read_from(self, offset: int) -> None:
        end = self.log.log_end_offset
        expected = list(range(offset, end))
        # More than that would be a lie: nothing was sent that holds so many.
        assert 0 < len(expected) < 10
        found = self.log.reader.read(offset, 1 << 20, Isolation.LOG_END)
        assert found.records is not None
        data = found.records.read()
        assert [one.offset for made in iter_batches(data) for one in read_records(made)] == expected
        assert decode_columns(data, ("offset", "key", "headers"))["offset"].to_pylist() == expected
        for reader in (MemoryRecords, MemoryRecordsOfAiokafka):
            assert offsets_by(reader, unpacked(data)) == expected
        for made in iter_batches(unpacked(data)):
            if made.magic == 2:
                assert offsets_by_kio(made) in (expected, None)
                times = [one.timestamp_ms for one in read_records(made)]
                assert made.max_timestamp_ms == max(-1, *times)

    def close(self) -> None:
        """An honest batch at the end is read by who reads from the start."""
        self.log.writer.append_as_leader(batch(b"last"), leader_epoch=0, now_ms=NOW_MS)
        self.log.writer.write_out()
        records = read_all(self.log)
        assert [one.offset for one in records] == list(range(self.log.log_end_offset))
        assert records[-1].value == b"last"
        assert self.refused


def unpacked(data: bytes) -> bytes:
    """The same without compression: the clients' codecs are not all installed."""
    out = bytearray()
    for one in iter_batches(data):
        made = bytearray(one.bytes_view())
        if isinstance(one, RecordBatch):
            made[HEADER.size :] = unpacked_payload(one)
            struct.pack_into(">i", made, 8, len(made) - 12)
            made[22] &= 0xF8
        elif one.compression is not Compression.NONE:
            made = bytearray().join(
                build_message(
                    inner.key, inner.value,
                    magic=one.magic, offset=inner.offset, timestamp_ms=inner.timestamp_ms,
                )
                for inner in read_records(one)
            )  # fmt: skip
        out += made
    return bytes(out)


def offsets_by_kio(made: Batch) -> list[int] | None:
    """`None` for times before 1970 or beyond the year 9999, which it cannot have."""
    assert isinstance(made, RecordBatch)
    plain = bytearray(made.bytes_view())
    deltas = [one.timestamp_ms - made.base_timestamp_ms for one in read_records(made)]
    if not 0 <= min(deltas) <= max(deltas) < LAST_MS_OF_9999:
        return None
    struct.pack_into(">q", plain, 27, 0)
    struct.pack_into(">q", plain, 35, 2**62)
    found, size = read_batch(bytes(signed(plain)), 0)
    assert size == len(plain)
    return [record.offset for record in found.records]


def offsets_by(reader: Callable[[bytes], object], data: bytes) -> list[int]:
    memory = reader(data)
    found: list[int] = []
    while (made := memory.next_batch()) is not None:  # type: ignore[attr-defined]
        found.extend(record.offset for record in made)
    return found


@cache
def walks() -> tuple[Callable[..., walk.Found], ...]:
    """As it is here, which may be compiled, and from its source."""
    source = Path(walk.__file__).parent / "walk.py"
    loader = SourceFileLoader("walk_from_source", str(source))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    plain = module_from_spec(spec)
    loader.exec_module(plain)
    return walk.check_records, plain.check_records


def test_a_compiled_walk_finds_what_the_source_finds() -> None:
    none = Compression.NONE
    lies = [*lies_in_header_bytes(none), *lies_in_record_bytes(none), *lies_in_varints(none)]
    for made in filter(is_batch, lies):
        batch = RecordBatch(made)
        for bounds in (walk.ANY_TIME, (NOW_MS - 1, NOW_MS + 1)):
            compiled, plain = (one(batch, batch.payload, *bounds) for one in walks())
            assert compiled == plain, made.hex()


def is_batch(made: bytearray) -> bool:
    """Whether it comes so far that its records are walked."""
    try:
        RecordBatch(made).check()
    except InvalidBatchError:
        return False
    return True


@pytest.mark.parametrize("codec", CODECS)
def test_no_byte_of_a_header_can_lie(codec: Compression) -> None:
    consumers = Consumers()
    for made in lies_in_header_bytes(codec):
        consumers.send(made)
    consumers.close()


@pytest.mark.parametrize("codec", CODECS)
def test_no_number_of_a_header_can_lie(codec: Compression) -> None:
    consumers = Consumers()
    whole = of_records(plain_records(), codec)
    fields = {
        0: "q",
        8: "i",
        12: "i",
        23: "i",
        27: "q",
        35: "q",
        43: "q",
        51: "h",
        53: "i",
        57: "i",
    }
    for position, letter in fields.items():
        bits = 8 * struct.calcsize(f">{letter}")
        edges = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2 ** (bits - 1) - 2)
        for number in {*NUMBERS, *edges}:
            if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
                made = bytearray(whole)
                struct.pack_into(f">{letter}", made, position, number)
                consumers.send(signed(made))
                # A count and a last offset that lie alike.
                if position == 57 and number - 1 >= -(2**31):
                    struct.pack_into(">i", made, 23, number - 1)
                    consumers.send(signed(made))
    consumers.close()


@pytest.mark.parametrize("codec", CODECS)
def test_no_byte_of_the_records_can_lie(codec: Compression) -> None:
    consumers = Consumers()
    for lie in lies_in_record_bytes(codec):
        consumers.send(lie)
    plain = plain_records()
    for size in range(len(plain)):
        consumers.send(signed(of_records(plain[:size], codec)))
        consumers.send(signed(of_records(plain + plain[: size + 1], codec)))
    consumers.close()


@pytest.mark.parametrize("codec", CODECS)
def test_no_varint_of_a_record_can_lie(codec: Compression) -> None:
    consumers = Consumers()
    for made in lies_in_varints(codec):
        consumers.send(made)
    consumers.close()


@pytest.mark.parametrize("codec", [one for one in CODECS if one is not Compression.NONE])
def test_no_byte_of_a_compressed_payload_can_lie(codec: Compression) -> None:
    consumers = Consumers()
    whole = of_records(plain_records(), codec)
    for position in range(HEADER.size, len(whole)):
        for byte in BYTES:
            made = bytearray(whole)
            made[position] = byte
            consumers.send(signed(made))
    consumers.close()


@pytest.mark.parametrize("log_magic", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_nothing_of_an_old_message_can_lie(magic: int, codec: Compression, log_magic: int) -> None:
    versions = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
    consumers = Consumers(
        TopicConfig(message_format_version=versions[log_magic], honours_format_version=True)
    )
    for records in old_sets_with_lies(magic, codec):
        consumers.send(records)
    assert consumers.accepted
    offsets = [one.offset for one in read_all(consumers.log)]
    assert offsets == list(range(consumers.log.log_end_offset))


def lies_in_header_bytes(codec: Compression) -> Iterator[bytearray]:
    whole = of_records(plain_records(), codec)
    for position in range(HEADER.size):
        for byte in BYTES:
            made = bytearray(whole)
            made[position] = byte
            yield signed(made)


def lies_in_record_bytes(codec: Compression) -> Iterator[bytearray]:
    plain = plain_records()
    for position in range(len(plain)):
        for byte in BYTES:
            made = bytearray(plain)
            made[position] = byte
            yield signed(of_records(bytes(made), codec))


def lies_in_varints(codec: Compression) -> Iterator[bytearray]:
    for records in records_with_lies():
        yield signed(of_records(records, codec, 1))


def plain_records() -> bytes:
    return bytes(honest().build()[HEADER.size :])


def records_with_lies() -> Iterator[bytes]:
    """One record, each of whose numbers is replaced by others, its size then right or not."""
    fields: list[bytes] = [b"\0", *map(varint, (0, 0, 3)), b"key", varint(5), b"value", varint(1)]
    fields += [varint(4), b"name", varint(6), b"header"]
    numbers = [index for index, one in enumerate(fields) if one not in (b"\0", b"key", b"value")]
    for index in numbers:
        overlong = [
            b"\x80\x00",
            b"\x80" * 4 + b"\x00",
            b"\x80" * 9 + b"\x00",
            b"\x80" * 12 + b"\x00",
        ]
        beyond = [b"\xff" * 4 + b"\x7f", b"\xff" * 9 + b"\x03", b"\xff" * 9 + b"\x01", b"\xff" * 5]
        for lie in [*map(varint, NUMBERS), *overlong, *beyond]:
            body = b"".join([*fields[:index], lie, *fields[index + 1 :]])
            yield varint(len(body)) + body
    body = b"".join(fields)
    for size in (*NUMBERS, len(body) - 1, len(body) + 1):
        yield varint(size) + body


def varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def old_sets_with_lies(magic: int, codec: Compression) -> Iterator[bytearray]:
    """A set of two messages, byte by byte; of a wrapper, its own bytes and those inside."""
    messages = [
        bytearray(build_message(b"key", b"value", magic=magic, offset=0, timestamp_ms=NOW_MS)),
        bytearray(build_message(None, b"", magic=magic, offset=1, timestamp_ms=NOW_MS + 1)),
    ]
    for number, message in enumerate(messages):
        for position in range(len(message)):
            for byte in BYTES:
                lie = bytearray(message)
                lie[position] = byte
                struct.pack_into(">I", lie, 12, zlib.crc32(memoryview(lie)[CRC_END:]))
                both = [*messages[:number], lie, *messages[number + 1 :]]
                if codec is Compression.NONE:
                    yield bytearray().join(both)
                else:
                    yield bytearray(wrapper(both, magic, codec))
    if codec is not Compression.NONE:
        whole = wrapper(messages, magic, codec)
        for position in range(ENTRY.size + 30):
            for byte in BYTES:
                lie = bytearray(whole)
                lie[position] = byte
                struct.pack_into(">I", lie, 12, zlib.crc32(memoryview(lie)[CRC_END:]))
                yield lie


def wrapper(messages: list[bytearray], magic: int, codec: Compression) -> bytes:
    return build_wrapper(
        [bytes(one) for one in messages],
        magic=magic, compression=codec, offset=1, timestamp_ms=NOW_MS + 1,
    )  # fmt: skip


def test_a_wrong_record_is_named_in_the_answer() -> None:
    records = b"".join([plain_records()[:-1], b"\x05"])
    with pytest.raises(InvalidRecordsError) as refused:
        Consumers().log.writer.append_as_leader(
            signed(of_records(records, Compression.GZIP)), leader_epoch=0, now_ms=NOW_MS
        )
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [one.index for one in refused.value.records] == [2]


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_names_the_records_without_a_key(codec: Compression) -> None:
    log = open_log(FakeFileSystem(), TopicConfig(cleanup_policy=("compact",)))
    with pytest.raises(InvalidRecordsError) as refused:
        log.writer.append_as_leader(
            signed(of_records(plain_records(), codec)), leader_epoch=0, now_ms=NOW_MS
        )
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [one.index for one in refused.value.records] == [1]
    assert values(log) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_largest_timestamp_that_lies_is_repaired_as_kafka_does(codec: Compression) -> None:
    log = open_log(FakeFileSystem(), TopicConfig())
    made = of_records(plain_records(), codec)
    struct.pack_into(">q", made, 35, 2**63 - 1)
    log.writer.append_as_leader(bytes(signed(made)), leader_epoch=0, now_ms=NOW_MS)
    log.writer.write_out()
    (stored,) = iter_batches(log.reader.read(0, 1 << 20, Isolation.LOG_END).records.read())  # type: ignore[union-attr]
    stored.check()
    assert stored.max_timestamp_ms == NOW_MS + 70


BOMB = b"\0" * (17 << 20)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
@pytest.mark.parametrize(
    "limit", [{"ottla_decompressed_max_bytes": 2 << 20}, {"ottla_decompressed_max_ratio": 20}]
)
def test_what_unpacks_to_more_than_it_may_is_refused(
    codec: Compression, limit: dict[str, int]
) -> None:
    log = open_log(FakeFileSystem(), TopicConfig(**limit))  # type: ignore[arg-type]
    builder = RecordBatchBuilder(compression=codec)
    builder.append(None, BOMB, NOW_MS, ())
    with pytest.raises(ApiError) as refused:
        log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert "decompresses to more than" in str(refused.value)
