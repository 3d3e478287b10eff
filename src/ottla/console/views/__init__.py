"""One module for each noun: the views of its pages, by path."""

from ottla.console.views import (
    acls,
    audit,
    cluster,
    group_changes,
    groups,
    jobs,
    messages,
    moves,
    nodes,
    overview,
    partitions,
    producing,
    queues,
    quotas,
    schemas,
    settings,
    tables,
    tiers,
    topic_changes,
    topic_choices,
    topic_copies,
    topics,
    transactions,
    users,
)
from ottla.console.views.view import View

VIEWS: dict[str, View] = {
    **overview.VIEWS,
    **cluster.VIEWS,
    **moves.VIEWS,
    **nodes.VIEWS,
    **topics.VIEWS,
    **topic_changes.VIEWS,
    **topic_copies.VIEWS,
    **topic_choices.VIEWS,
    **partitions.VIEWS,
    **messages.VIEWS,
    **producing.VIEWS,
    **schemas.VIEWS,
    **groups.VIEWS,
    **queues.VIEWS,
    **group_changes.VIEWS,
    **transactions.VIEWS,
    **users.VIEWS,
    **acls.VIEWS,
    **quotas.VIEWS,
    **settings.VIEWS,
    **jobs.VIEWS,
    **tables.VIEWS,
    **tiers.VIEWS,
    **audit.VIEWS,
}
"""Path -> view."""

__all__ = ["VIEWS", "View"]
