"""A KRaft cluster as its nodes show it: features at their levels, and who its controllers are."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.broker.control.image_view import ImageView
from ottla.metadata.cluster_view import (
    NO_CONTROLLER,
    ControllerNodes,
    FinalizedFeatures,
    Node,
    Reach,
)
from ottla.metadata.levels import KRAFT_VERSION

if TYPE_CHECKING:
    from ottla.broker.configs.settings import BrokerSettings
    from ottla.broker.control.image_view import ViewingBroker
    from ottla.broker.membership.quorum_start import QuorumStart
    from ottla.broker.startup.opening import BrokerOptions

    class QuorumNode(ViewingBroker, Protocol):
        settings: BrokerSettings
        options: BrokerOptions


class QuorumView(ImageView):
    def __init__(
        self,
        broker: "QuorumNode",
        features: Mapping[str, tuple[int, int]],
        quorum: "QuorumStart",
    ) -> None:
        super().__init__(broker, features, has_peers=True)
        self._settings = broker.settings
        self._random_below = broker.options.random_below
        self._quorum = quorum

    @property
    def finalized(self) -> FinalizedFeatures:
        image = self._known.image
        known = {**image.features, KRAFT_VERSION: self._quorum.kraft_version()}
        levels = {name: level for name, level in known.items() if level}
        return FinalizedFeatures(levels, image.end_offset - 1)

    def level(self, feature: str) -> int:
        return self._known.image.features.get(feature, 0)

    @property
    def controller_id(self) -> int:
        live = [one for one, known in self._known.image.brokers.items() if not known.is_fenced]
        return live[self._random_below(len(live))] if live else NO_CONTROLLER

    def controllers(self, reach: Reach) -> ControllerNodes | None:
        names = {one.upper() for one in self._settings.config.controller_listener_names}
        if reach.listener.upper() not in names:
            return None
        nodes = [*self._registered(reach.listener)] or [*self._configured()]
        return ControllerNodes(self._quorum.leader_id(), nodes)

    def _registered(self, listener: str) -> Iterator[Node]:
        for controller, one in sorted(self._known.image.controllers.items()):
            for endpoint in one.end_points:
                if endpoint.name == listener:
                    yield Node(controller, endpoint.host, endpoint.port)

    def _configured(self) -> Iterator[Node]:
        """The voters that the settings name: before metadata.version 15 controllers do not
        register.
        """
        for voter in sorted(self._settings.config.voters):
            yield Node(voter.id, *voter.address)
