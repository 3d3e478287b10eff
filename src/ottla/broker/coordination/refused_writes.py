"""What takes no records at the moment, said once and not at each of many attempts."""

import logging

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition

logger = logging.getLogger(__name__)


class RefusedWrites:
    """Coordinators and their clients try again several times a second, each for itself, as long as
    a partition has too few replicas in sync.
    """

    def __init__(self) -> None:
        self._said: dict[TopicPartition, ErrorCode] = {}

    def refused(self, place: TopicPartition, whose: str, error: ApiError) -> None:
        """`whose` names the records that could not be written."""
        if self._said.get(place) is not error.code:
            self._said[place] = error.code
            logger.error("cannot write to %s-%d (%s): %s", *place, whose, error)

    def written(self, place: TopicPartition) -> None:
        if self._said and self._said.pop(place, None) is not None:
            logger.warning("%s-%d takes records again", *place)
