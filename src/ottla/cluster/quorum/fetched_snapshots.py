"""Parts of the leader's snapshot are on the disk before the machine takes them.

Without room a part is asked for again, and the node goes on voting meanwhile. Kafka's counterpart:
`RawSnapshotWriter`; there a full disk ends the node.
"""

from typing import Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ShortageError
from ottla.base.files import Buffer
from ottla.cluster.quorum.complaints import Complaints
from ottla.quorum.messages import SnapshotAnswer, SnapshotId
from ottla.quorum.roles import Follower, Role

ResponseT = TypeVar("ResponseT")


class SnapshotFiles(Protocol):
    def write_snapshot(self, snapshot: SnapshotId, position: int, content: Buffer) -> None:
        """Raises `ShortageError` without room, and `StorageError`."""


class FetchedSnapshots:
    def __init__(self, files: SnapshotFiles, complaints: Complaints) -> None:
        self._files = files
        self._complaints = complaints

    def written(self, role: Role, response: ResponseT) -> ResponseT | SnapshotAnswer:
        """A response, once what it brings is written; without room it has KAFKA_STORAGE_ERROR."""
        if not isinstance(response, SnapshotAnswer) or not response.content:
            return response
        is_next = isinstance(role, Follower) and (role.snapshot, role.position) == (
            response.snapshot,
            response.position,
        )
        if not is_next or response.error is not ErrorCode.NONE:
            return response
        try:
            self._files.write_snapshot(response.snapshot, response.position, response.content)
        except ShortageError as error:
            self._complaints.no_room(error.reason)
            return response._replace(error=ErrorCode.KAFKA_STORAGE_ERROR, content=b"")
        self._complaints.no_room("")
        return response
