"""An application of Quix Streams: bills orders, and numbers each table's. Run in an environment of
its own, with the broker's address and a directory for its state."""

import sys
from typing import Any

from quixstreams import Application, State


def bill(order: str, state: State) -> str:
    count = state.get("count", 0) + 1
    state.set("count", count)
    return f"bill {count} for {order}"


def main(address: str, directory: str) -> None:
    more: dict[str, Any] = {"commit_interval": 0.1, "use_changelog_topics": True}
    application = Application(
        broker_address=address,
        consumer_group="billing",
        auto_offset_reset="earliest",
        state_dir=directory,
        loglevel="WARNING",
        **more,
    )
    orders = application.topic("orders", value_deserializer="str")
    bills = application.topic("bills", value_serializer="str")
    application.dataframe(orders).apply(bill, stateful=True).to_topic(bills)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
