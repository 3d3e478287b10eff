"""What the members of a group read, compared with the topics there are.

Kafka's counterparts: `GroupMetadataManager.updateSubscriptionMetadata`, `TopicRegexResolver`.
"""

from functools import lru_cache

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.plan import ConsumerPlan
from ottla.coordinator.consumer.requests import TopicCatalog
from ottla.coordinator.consumer.topic_regex import RegexError, TopicRegex
from ottla.coordinator.offsets.records import TopicMetadata


@lru_cache(maxsize=1024)
def compile_regex(text: str) -> TopicRegex:
    """Raises `ApiError(INVALID_REGULAR_EXPRESSION)`."""
    try:
        return TopicRegex(text)
    except RegexError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}.",
        ) from error


def matching_topics(regex: str, catalog: TopicCatalog) -> frozenset[str]:
    """The topics whose whole name an expression matches; raises `ApiError`."""
    compiled = compile_regex(regex)
    return frozenset(topic.name for topic in catalog if compiled.matches(topic.name))


def refresh(plan: ConsumerPlan, catalog: TopicCatalog) -> bool:
    """Looks at the topics again; whether anything is different for the group."""
    has_changed = False
    for regex in sorted(plan.group.used_regexes()):
        found = matching_topics(regex, catalog)
        if found != plan.group.regexes.get(regex):
            plan.set_regex(regex, found, catalog.revision)
            has_changed = True
    for regex in sorted(plan.group.regexes.keys() - plan.group.used_regexes()):
        plan.forget_regex(regex)
    topics = _known_topics(plan.group, catalog)
    if topics != plan.group.topics:
        plan.set_topics(list(topics.values()))
        has_changed = True
    return has_changed


def _known_topics(group: ConsumerGroup, catalog: TopicCatalog) -> dict[str, TopicMetadata]:
    found = {}
    for name in sorted(group.subscribed_topics()):
        topic = catalog.find(name)
        if topic is not None:
            found[name] = TopicMetadata(
                topic_id=topic.topic_id,
                topic_name=name,
                num_partitions=topic.partition_count,
            )
    return found
