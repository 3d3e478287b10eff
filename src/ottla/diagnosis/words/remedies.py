"""The fix for each complaint of `ottla doctor`, with the command if there is one."""

from ottla.diagnosis.complaints import Complaint, Remedy
from ottla.diagnosis.words.setting_commands import Setting

REMEDIES = {
    Remedy.AS_FOUND: "{subject}",
    Remedy.NONE: "nothing to do, if that is intended",
    Remedy.CLOSE: "nothing to do on a closed network; otherwise see docs/security.md",
    Remedy.SET_CLOCK: "set the clock before a broker runs",
    Remedy.COMPARE_CLOCKS: "compare the clock with another one (timedatectl), and correct it; "
    "retention waits until the clock has caught up",
    Remedy.NAME_SETTINGS: "name its server.properties with --config FILE, or a running broker, "
    "HOST:PORT",
    Remedy.LOOK_THERE: "run ottla doctor DIR on the broker's machine",
    Remedy.ADOPT: "stop the broker, and run ottla adopt {subject}",
    Remedy.TURN_CLEANER_ON: "log.cleaner.enable=true in server.properties, and a restart",
    Remedy.MAKE_ROOM: "free disk space, lower retention.bytes or .ms (ottla explain retention "
    "TOPIC), or add a directory to log.dirs",
    Remedy.REPLACE_DISK: "repair the disk, and restart the broker, which recovers the directory",
    Remedy.INSPECT_STRAY: "inspect it (ottla log dump), then move or remove the directory",
    Remedy.PUT_BACK: "put it back, or stop the broker and give it up: ottla log give-up {subject}",
    Remedy.PUT_RIGHT_FILE: "put the right file or directory in its place",
    Remedy.RESTORE: "restore it from a backup; ottla log repair does not invent it",
    Remedy.RESTORE_SNAPSHOT: "restore it from a backup, or copy it from another controller",
    Remedy.CHECK: "ottla log check {subject}",
    Remedy.CHECK_THEN_REPAIR: "ottla log check {where}, then ottla log repair",
    Remedy.SHOW_REPAIR: "ottla log repair {subject} shows the repair",
    Remedy.REPAIR_IN_PLACE: "stop the broker, then ottla log repair --in-place {subject}",
    Remedy.REPAIR_SEGMENT: "stop the broker, then ottla log repair --in-place {subject}; the "
    "cleaner retries a file that has changed",
    Remedy.EXPLAIN_RETENTION: "ottla explain retention {subject} lists the options",
    Remedy.EXPLAIN_COMPACTION: "ottla explain compaction {subject} says when it is retried; "
    "ottla log check {where} looks for damage",
    Remedy.START_RECOVERS: "nothing to do: the next start recovers it (ottla log check shows what "
    "it will find)",
    Remedy.START_REMOVES: "nothing to do: the next start removes them",
    Remedy.START_REBUILDS: "nothing to do: the next start rebuilds indexes from the whole segment, "
    "or ottla log repair does earlier",
    Remedy.START_FINISHES: "nothing to do: the next start finishes it, or ottla log repair does",
    Remedy.START_SETS_ASIDE: "nothing to do: the next start keeps the segments that it was to "
    "replace, and sets it aside",
    Remedy.BROKER_REMOVES: "nothing to do: a running broker removes it after file.delete.delay.ms",
    Remedy.BROKER_MOVES: "nothing to do: a running broker continues the move",
    Remedy.CLEANER_REPLACES: "nothing to do: the cleaner replaces the file with its next note",
    Remedy.START_BROKER: "start it, or move its replicas away: "
    "ottla cluster drain {target} {subject}",
    Remedy.REACH_BROKER: "start it if it does not run; otherwise its log says what keeps it, and "
    "the network what keeps you from it",
    Remedy.START_REPLICAS: "start the brokers that are down, and wait until they have caught up "
    "(ottla cluster status {target}); those that are up and lag say why in their logs",
    Remedy.ELECT_LEADERS: "ottla cluster elect {target}; with auto.leader.rebalance.enable the "
    "controller does so automatically",
    Remedy.REACH_ZOOKEEPER: "let the brokers reach ZooKeeper: the first that does is the "
    "controller; their logs say what keeps them from it",
    Remedy.START_VOTERS: "start its voters: a majority of them must be up and reach each other "
    "(ottla cluster status {target} --controllers); their logs say what keeps them apart",
    Remedy.START_VOTER: "start the node; if it is gone for good, add another voter, and remove it: "
    "ottla cluster remove-controller {target} {subject}",
    Remedy.START_OBSERVER: "start the node; a broker that is gone for good is forgotten by ottla "
    "cluster unregister {target} {subject}",
    Remedy.ADD_VOTER: "ottla cluster add-controller {target} NODE --at HOST:PORT",
    Remedy.LOOK_AT_NODE: "the log of node {subject} says why; it takes a snapshot of the leader's "
    "if it is too far behind",
    Remedy.LOOK_AT_BROKER: "the log of broker {subject} says why: it may wait for open files",
    Remedy.UNREGISTER_BROKER: "start it, or forget it: ottla cluster unregister {target} {subject}",
    Remedy.MAKE_SNAPSHOTS: "the node makes one while it runs, unless the disk refuses it (its log "
    "says so); see metadata.log.max.snapshot.interval.ms",
    Remedy.CHECK_TIER: "ottla tier check {subject} --tier ADDRESS names what is missing; put it "
    "back from a copy of the tier, or give the offsets up: ottla delete-records",
    Remedy.BROKER_NOTES: "nothing to do: the broker replaces the file with its next note",
    Remedy.LOOK_AT_TIER: "the broker's log says why, and ottla tier explain {subject} --tier "
    "ADDRESS -t TOPIC: let the store answer, and the broker's user write to it",
}


def remedy_text(one: Complaint, target: str) -> str:
    """The fix for a complaint; `target` is the broker or directory that was checked."""
    if one.remedy is Remedy.CHANGE_SETTING:
        return Setting(topic=one.subject, target=target).command(one.change)
    return REMEDIES[one.remedy].format(subject=one.subject, where=one.where, target=target)
