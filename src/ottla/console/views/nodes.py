"""What a KRaft cluster consists of: a broker is forgotten, a vote is given and taken away, and a
feature is raised, each with its preview.
"""

from ottla.base.addresses import address_text, parse_address
from ottla.base.errors import UserError
from ottla.base.texts import whole_number
from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus
from ottla.console.changes import Change, is_of_brokers, propose
from ottla.console.commands import Command
from ottla.console.pages import Ask, Page, QueryError, Redirect
from ottla.console.views.view import View

BACK = "/cluster"
MOST = (1 << 31) - 1


def unregister(ask: Ask) -> Page | Redirect:
    """Forgets a broker that is down for good."""
    broker = _number(ask, "broker")
    with ask.place.admin() as admin:
        is_up = broker in admin.describe_cluster().brokers
    problem = f"Broker {broker} is up: stop it first, or it registers again."

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.unregister_broker(broker)
        return Redirect(BACK, f"broker {broker} forgotten")

    return propose(
        ask,
        Change(
            title=f"Forget broker {broker}",
            lines=(
                "The cluster waits for it no longer. Replicas that are still on it stay listed, "
                "and out of sync: move them to other brokers first.",
            ),
            problem=problem if is_up else "",
            command=Command(
                verb=("cluster", "unregister"), options=("--yes",), arguments=(str(broker),)
            ),
            typed=str(broker),
            back=BACK,
            section="cluster",
            deed=deed,
        ),
    )


def remove_controller(ask: Ask) -> Page | Redirect:
    """Takes the vote of a controller away."""
    node = _number(ask, "node")
    quorum = _quorum(ask)
    voter = _found(quorum.voters, node, "voter")

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.remove_raft_voter(node)
        return Redirect(BACK, f"node {node} is no voter any more")

    left = len(quorum.voters) - 1
    return propose(
        ask,
        Change(
            title=f"Take the vote of node {node} away",
            lines=(
                f"{left} of {len(quorum.voters)} voters are left. One that runs with "
                "controller.quorum.auto.join.enable joins again: stop it first.",
            ),
            problem=_static(voter) or ("" if left else "It is the only voter."),
            command=Command(
                verb=("cluster", "remove-controller"), options=("--yes",), arguments=(str(node),)
            ),
            typed=str(node),
            back=BACK,
            section="cluster",
            deed=deed,
        ),
    )


def add_controller(ask: Ask) -> Page | Redirect:
    """The form; and, once it names where the node listens, the change."""
    node, at = _number(ask, "node"), ask.fields.get("at", "").strip()
    observer = _found(_quorum(ask).observers, node, "observer")
    problem = ""
    if at:
        try:
            return propose(ask, _addition(ask, observer, at))
        except UserError as error:
            if ask.form is not None or is_of_brokers(error):
                raise
            problem = str(error)
    return Page(
        template="add_controller.html",
        title=f"Make node {node} a voter",
        section="cluster",
        data={"node": node, "at": at, "confirm": "", "problem": problem},
        status=400 if problem else 200,
    )


def _addition(ask: Ask, observer: QuorumReplica, at: str) -> Change:
    """Raises `UserError`."""
    node, (host, port) = observer.node, parse_address(at)

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.add_raft_voter(node, None, host, port)
        return Redirect(BACK, f"node {node} is a voter")

    return Change(
        title=f"Make node {node} a voter",
        lines=(
            f"The other controllers reach it at {address_text(host, port)}, its listener for "
            "controllers. It must be a controller, and have caught up.",
        ),
        problem=_static(observer),
        command=Command(
            verb=("cluster", "add-controller"),
            options=("--at", address_text(host, port)),
            arguments=(str(node),),
        ),
        back=BACK,
        section="cluster",
        template="add_controller.html",
        data={"node": node, "at": at},
        deed=deed,
    )


def upgrade(ask: Ask) -> Page | Redirect:
    """Raises a feature to a level, by default the highest that a broker supports."""
    name, given = ask.fields.get("feature", ""), ask.fields.get("level", "")
    with ask.place.admin() as admin:
        found = admin.describe_features().get(name)
    if found is None:
        raise QueryError("feature", name, "a feature of the cluster")
    level = whole_number(given, MOST) if given else found.highest
    if level is None:
        raise QueryError("level", given, "a whole number")

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.update_features({name: level})
        return Redirect(BACK, f"{name} raised to level {level}")

    return propose(
        ask,
        Change(
            title=f"Raise {name} to level {level}",
            lines=(
                f"It is at level {found.level} now; brokers support {found.lowest} to "
                f"{found.highest}. All nodes must support the level, and brokers of before can "
                "come back only if it is lowered again, which not every level allows.",
            ),
            problem="" if level > found.level else f"It is at level {found.level} already.",
            command=Command(
                verb=("cluster", "features"), options=("--upgrade", f"{name}={level}", "--yes")
            ),
            typed=name,
            fields={"feature": name, "level": str(level)},
            back=BACK,
            section="cluster",
            deed=deed,
        ),
    )


def _number(ask: Ask, name: str) -> int:
    text = ask.fields.get(name, "")
    found = whole_number(text, MOST)
    if found is None:
        raise QueryError(name, text, "the id of a node")
    return found


def _quorum(ask: Ask) -> QuorumStatus:
    with ask.place.admin() as admin:
        found = admin.describe_quorum()
    if found is None:
        raise UserError("the brokers belong to no KRaft cluster: nothing votes there")
    return found


def _found(those: tuple[QuorumReplica, ...], node: int, kind: str) -> QuorumReplica:
    for one in those:
        if one.node == node:
            return one
    names = ", ".join(str(one.node) for one in those) or "none"
    raise UserError(f"node {node} is no {kind} of the quorum; {kind}s: {names}")


def _static(one: QuorumReplica) -> str:
    """Why voters cannot be changed at all, if that is so."""
    if one.directory_id is not None:
        return ""
    return "The voters are those of controller.quorum.voters: raise kraft.version to 1 first."


VIEWS = {
    "/cluster/unregister": View(unregister, takes_forms=True),
    "/cluster/remove-controller": View(remove_controller, takes_forms=True),
    "/cluster/add-controller": View(add_controller, takes_forms=True),
    "/cluster/upgrade": View(upgrade, takes_forms=True),
}
