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
    """All methods raise `ShortageError` without room, and `StorageError`."""

    def write_snapshot(self, snapshot: SnapshotId, position: int, content: Buffer) -> None: ...

    def finish_snapshot(self, snapshot: SnapshotId) -> None: ...

    def has_part(self, snapshot: SnapshotId) -> bool:
        """Whether what was written of it is still there."""


class Fetching(Protocol):
    """The machine that is about to be given the response with a number."""

    @property
    def role(self) -> Role: ...

    def would_complete(self, number: int, answer: SnapshotAnswer) -> bool: ...


class FetchedSnapshots:
    def __init__(self, files: SnapshotFiles, complaints: Complaints) -> None:
        self._files = files
        self._complaints = complaints

    def written(
        self, quorum: Fetching, number: int, response: ResponseT
    ) -> ResponseT | SnapshotAnswer:
        """A response, once what it brings is written; without room it has KAFKA_STORAGE_ERROR.

        With its last part the snapshot is finished too: the machine could not take that back.
        """
        if not isinstance(response, SnapshotAnswer) or not response.content:
            return response
        role = quorum.role
        is_next = isinstance(role, Follower) and (role.snapshot, role.position) == (
            response.snapshot,
            response.position,
        )
        if not is_next or response.error is not ErrorCode.NONE:
            return response
        snapshot, completes = response.snapshot, quorum.would_complete(number, response)
        try:
            self._files.write_snapshot(snapshot, response.position, response.content)
            if completes:
                self._files.finish_snapshot(snapshot)
        except ShortageError as error:
            self._complaints.no_room(error.reason)
            is_begun = response.position == 0 or self._files.has_part(snapshot)
            # Of what a failed sync has left nothing is known: it is fetched from the beginning.
            code = ErrorCode.KAFKA_STORAGE_ERROR if is_begun else ErrorCode.SNAPSHOT_NOT_FOUND
            return response._replace(error=code, content=b"")
        self._complaints.no_room("")
        return response
