"""The quorum of a KRaft cluster: its voters, the cluster's features, and brokers that are gone.

Kafka's counterparts: `kafka-metadata-quorum.sh`, `kafka-features.sh` and `kafka-cluster.sh`.
"""

from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any

from ottla.base.addresses import Address
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.values import dataclass
from ottla.client.administration.asking import TIMEOUT_MS, Asking, check_all, refused
from ottla.client.administration.controller_places import check_place
from ottla.client.administration.quorum_status import (
    QuorumStatus,
    leader_or_words,
    words_of_voters,
)
from ottla.client.connecting.connection import CLIENT_ID, Connection
from ottla.client.refusals import RefusedError
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_controller import UnregisterControllerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeature:
    """A feature of a cluster; `level` is 0 where it is off, and a broker that was asked supports
    those from `lowest` to `highest`.
    """

    level: int
    lowest: int
    highest: int


class FeatureDirection(IntEnum):
    """UpdateFeatures' `upgrade_type`."""

    UPGRADE = 1
    DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class QuorumAdmin(Asking):
    """Questions about the quorum, and changes of what it consists of."""

    def describe_quorum(self) -> QuorumStatus | None:
        """Who leads the controllers, and how far each voter and observer is; `None` for brokers
        that belong to no KRaft cluster. While nobody leads, its leader is -1. Raises `RefusedError`
        for a user without Describe on the cluster.

        >>> admin.describe_quorum() is None
        True
        """

        voters: dict[Address, int] = {}
        asked = []

        def ask(broker: Connection) -> QuorumStatus | None:
            asked.append(broker)
            if not broker.answers(ApiKey.DESCRIBE_QUORUM):
                return None
            answer = self._cluster.ask_through(broker, leader_or_words)
            if isinstance(answer, QuorumStatus):
                return answer
            voters.update(answer.voters)
            return QuorumStatus()

        try:
            found = self._cluster.ask_any(ask)
            if found is None or found.is_led:
                return found
            # It may be cut off from the controllers, and others may not.
            for node in self._cluster.node_ids():
                with suppress(UserError):
                    broker = self._cluster.broker(node)
                    if broker not in asked and (other := ask(broker)) is not None and other.is_led:
                        return other
            return QuorumStatus(words=self._words_of(voters))
        except RefusedError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                raise
            return QuorumStatus(words=f"none has answered {asked[-1].address} in time")
        except ApiError as error:
            raise refused("quorum", error.code, error.message) from error

    def _words_of(self, voters: Mapping[Address, int]) -> str:
        """Their listener may be one that only nodes of the quorum may use."""
        with suppress(UserError):
            return words_of_voters(voters, self._cluster.settings) if voters else ""
        return ""

    def add_raft_voter(
        self, node: int, listener: str | None, host: str, port: int, *, directory: str | None = None
    ) -> None:
        """Makes a controller that follows the metadata log a voter, at the address of its
        listener for controllers, by default named as that of the others; without `directory` its
        id is looked up among the observers. Raises `UserError` for a node that does
        not follow or is elsewhere, and `RefusedError`.

        >>> admin.add_raft_voter(4, "CONTROLLER", "localhost", 9093)
        Traceback (most recent call last):
        ...
        ottla.base.errors.UserError: the brokers belong to no KRaft cluster: nothing votes there
        """
        status = self._led_quorum()
        directory_id = _directory(status, node, directory, is_voter=False)
        cluster_id = self._cluster.ask_any(lambda one: one.ask(DescribeClusterRequest())).cluster_id
        check_place(node, (host, port), status, cluster_id, self._cluster.settings)
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=TIMEOUT_MS,
            voter_id=node,
            voter_directory_id=directory_id,
            listeners=[Listener(name=listener or _listener_of(status), host=host, port=port)],
        )
        self._ask_quorum(f"voter {node}", request)

    def remove_raft_voter(self, node: int, *, directory: str | None = None) -> None:
        """Makes a voter an observer; without `directory` its id is looked up among the voters.
        Raises `UserError` for a node that is no voter, and `RefusedError`.

        >>> admin.remove_raft_voter(4)
        Traceback (most recent call last):
        ...
        ottla.base.errors.UserError: the brokers belong to no KRaft cluster: nothing votes there
        """
        request = RemoveRaftVoterRequest(
            cluster_id=None,
            voter_id=node,
            voter_directory_id=_directory(self._led_quorum(), node, directory, is_voter=True),
        )
        self._ask_quorum(f"voter {node}", request)

    def _led_quorum(self) -> QuorumStatus:
        """As `describe_quorum`; waits for a leader: one that has lost its vote a moment ago leaves
        the others to elect the next. Raises `UserError` where there is no quorum.
        """

        def led() -> QuorumStatus | None:
            status = self.describe_quorum()
            if status is not None and not status.is_led:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            return status

        try:
            found = self._cluster.again(led)
        except ApiError as error:
            raise refused("quorum", error.code, "No controller leads the quorum.") from error
        if found is None:
            raise UserError("the brokers belong to no KRaft cluster: nothing votes there")
        return found

    def unregister_broker(self, broker: int) -> None:
        """Forgets a broker that is down for good, and has no replicas any more. Raises
        `RefusedError`.

        >>> admin.unregister_broker(4)
        Traceback (most recent call last):
        ...
        ottla.base.errors.UserError: the brokers belong to no KRaft cluster: none is registered
        """
        if not self._cluster.ask_any(lambda one: one.answers(ApiKey.UNREGISTER_BROKER)):
            raise UserError("the brokers belong to no KRaft cluster: none is registered")
        self._ask_quorum(f"broker {broker}", UnregisterBrokerRequest(broker_id=broker))

    def unregister_controller(self, node: int) -> None:
        """Forgets a controller that votes no more and is down for good, from `metadata.version` 33
        on: before, what it supported limits the levels of features. Raises `RefusedError`.

        >>> admin.unregister_controller(4)
        Traceback (most recent call last):
        ...
        ottla.base.errors.UserError: the brokers cannot forget controllers: this needs KRaft of 4.4
        """
        if not self._cluster.ask_any(lambda one: one.answers(ApiKey.UNREGISTER_CONTROLLER)):
            raise UserError("the brokers cannot forget controllers: this needs KRaft of 4.4")
        self._ask_quorum(f"controller {node}", UnregisterControllerRequest(controller_id=node))

    def describe_features(self) -> dict[str, ClusterFeature]:
        """The features of the cluster by name: their levels, and those that a broker supports.

        >>> features = admin.describe_features()
        >>> features["metadata.version"].lowest
        7
        """
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        ranges = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
        return {
            name: ClusterFeature(
                level=levels.get(name, 0),
                lowest=ranges.get(name, (0, 0))[0],
                highest=ranges.get(name, (0, 0))[1],
            )
            for name in sorted(levels.keys() | ranges.keys())
        }

    def update_features(
        self,
        levels: Mapping[str, int],
        direction: FeatureDirection = FeatureDirection.UPGRADE,
        *,
        dry_run: bool = False,
    ) -> None:
        """Raises features to levels, or lowers them; all or none of them. With `dry_run` it is
        only checked whether the cluster would do so. Raises `RefusedError`.

        >>> admin.update_features({"metadata.version": 25})
        Traceback (most recent call last):
        ...
        ottla.base.errors.UserError: the brokers belong to no KRaft cluster: no feature changes
        """
        if not self._cluster.ask_any(lambda one: one.answers(ApiKey.UPDATE_FEATURES)):
            raise UserError("the brokers belong to no KRaft cluster: no feature changes")
        request = UpdateFeaturesRequest(
            timeout_ms=TIMEOUT_MS,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=direction)
                for name, level in levels.items()
            ],
            validate_only=dry_run,
        )
        answer = self._ask_quorum(", ".join(levels), request)
        check_all({one.feature: one for one in answer.results})

    def _ask_quorum(self, what: str, request: Message) -> Any:
        """Any broker passes it on to the active controller."""
        answer = self._cluster.ask_controller(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused(what, answer.error_code, answer.error_message)
        return answer


def _listener_of(status: QuorumStatus) -> str:
    """The name of the listener by which the leader is reached; raises `UserError`."""
    found = [one.listener for one in status.voters if one.node == status.leader and one.listener]
    if not found:
        raise UserError(
            "the quorum does not tell the name of its listener: name that of the controllers, the "
            "first of controller.listener.names"
        )
    return found[0]


def _directory(status: QuorumStatus, node: int, given: str | None, *, is_voter: bool) -> Uuid:
    if given is None:
        return directory_of(status, node, is_voter=is_voter)
    try:
        return parse_uuid(given)
    except ValueError as error:
        raise UserError(f"directory: {error}") from error


def directory_of(status: QuorumStatus, node: int, *, is_voter: bool) -> Uuid:
    """Raises `UserError` if there is none, there are several, or it is not known."""
    kind, those = ("voter", status.voters) if is_voter else ("observer", status.observers)
    found = [one for one in those if one.node == node]
    if not found:
        known = ", ".join(str(one.node) for one in those) or "none"
        raise UserError(f"node {node} is no {kind} of the quorum; {kind}s: {known}")
    # What it was before, with another disk, is listed for a while, and does not fetch.
    found = [one for one in found if not status.is_silent(one)] or found
    if len(found) > 1:
        names = ", ".join(
            "none" if one.directory_id is None else uuid_text(one.directory_id) for one in found
        )
        raise UserError(
            f"node {found[0].node} is {kind} with several directories: stop all processes but one "
            f"that have this node.id, or name the directory.id, one of {names}"
        )
    if found[0].directory_id is None:
        raise UserError(
            "the voters of this quorum are those of controller.quorum.voters (kraft.version 0); "
            "upgrade the feature kraft.version to 1, or change the setting on all nodes"
        )
    return found[0].directory_id
