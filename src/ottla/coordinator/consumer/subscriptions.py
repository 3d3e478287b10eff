"""Matches the subscriptions of a group with the existing topics.

Kafka's counterparts: `GroupMetadataManager.updateSubscriptionMetadata`, `TopicRegexResolver`.
"""

from functools import lru_cache

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.catalog import TopicCatalog
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.plan import ConsumerPlan
from ottla.coordinator.consumer.requests import VisibleTopics
from ottla.coordinator.consumer.topic_regex import RegexError, TopicRegex
from ottla.coordinator.offsets.records import TopicMetadata


@lru_cache(maxsize=1024)
def compile_regex(text: str) -> TopicRegex:
    """Compiles an expression; raises `ApiError(INVALID_REGULAR_EXPRESSION)`."""
    try:
        return TopicRegex(text)
    except RegexError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}.",
        ) from error


def matching_topics(regex: str, catalog: TopicCatalog, visible: VisibleTopics) -> frozenset[str]:
    """The visible topics whose full name matches the expression; raises `ApiError`."""
    compiled, may_describe = compile_regex(regex), visible.may_describe
    return frozenset(
        topic.name for topic in catalog if compiled.matches(topic.name) and may_describe(topic.name)
    )


def resolve(
    plan: ConsumerPlan, regex: str | None, catalog: TopicCatalog, visible: VisibleTopics
) -> bool:
    """Resolves a member's expression if topics may have changed; returns whether the result
    changed.

    Only the member's own expression is resolved, because members may see different topics. Kafka
    resolves all expressions of the group with the rights of the first member that sends a
    heartbeat.
    """
    revisions = (catalog.revision, visible.revision)
    if not regex or plan.group.regex_revisions.get(regex) == revisions:
        return False
    found = matching_topics(regex, catalog, visible)
    has_changed = found != plan.group.regexes.get(regex)
    if has_changed:
        plan.set_regex(regex, found, catalog.revision)
    plan.resolved(regex, revisions)
    return has_changed


def refresh(plan: ConsumerPlan, catalog: TopicCatalog) -> bool:
    """Looks up the subscribed topics again; returns whether they changed for the group."""
    has_changed = False
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
