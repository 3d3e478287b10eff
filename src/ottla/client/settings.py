"""What a topic was told itself, as any broker of its cluster tells it (DescribeConfigs)."""

from ottla.client.cluster import check
from ottla.client.connection import Connection
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC_RESOURCE = 2
OF_THE_TOPIC = 1


def topic_overrides(connection: Connection, topics: list[str]) -> dict[str, dict[str, str]]:
    """For each topic the settings that are its own, not a default; raises `ApiError`."""
    if not topics:
        return {}
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
        )
        for topic in topics
    ]
    found = {}
    for result in connection.ask(DescribeConfigsRequest(resources=resources)).results:
        check(result.error_code, result.error_message)
        found[result.resource_name] = {
            one.name: one.value
            for one in result.configs
            if one.config_source == OF_THE_TOPIC and one.value is not None
        }
    return found
