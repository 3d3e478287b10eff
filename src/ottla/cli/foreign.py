"""Options of kcat, rpk and Kafka's console tools, each with Ottla's equivalent.

An unknown option is looked up here for its error message; Ottla has none of them.
"""

from collections.abc import Mapping

_TARGET = "name the broker as the first argument, or with -b"
_TOPIC = "topics are arguments, after the target"
_START = "name the start with --offset: beginning (the default), end, -10, @TIME"
_PLACE = "name the place with --to: earliest, latest, an offset, @TIME"
_FORMAT = "choose what is printed with --format, such as '%k: %s\\n' or '{key}: {value}'"
_SETTING = "give a client's settings with -X KEY=VALUE"
_FILE = "give a file of client settings with --client-config"
_VERB = "commands are verbs: ottla topics {verb}, ottla groups {verb}"

HINTS: Mapping[str, str] = {
    "-C": "use ottla consume",
    "-P": "use ottla produce",
    "-L": "use ottla topics list or ottla topics describe",
    "-Q": "use ottla consume TARGET TOPIC -o @TIME -n 1 --format '%o\\n'",
    "-G": "use ottla consume --group GROUP",
    "-t": _TOPIC,
    "--topic": _TOPIC,
    "--topics": _TOPIC,
    "--all-topics": "without topics, all are meant",
    "--include": "a topic may be a pattern: 'orders-*', or '^orders-[0-9]+$'",
    "--whitelist": "a topic may be a pattern: 'orders-*', or '^orders-[0-9]+$'",
    "-b": "name the target after a command: ottla topics list -b HOST:PORT",
    "--bootstrap-server": _TARGET,
    "--broker-list": _TARGET,
    "--brokers": _TARGET,
    "--zookeeper": _TARGET,
    "--group": "groups are arguments, after the target; ottla consume has --group",
    "--from-beginning": _START,
    "--start": _START,
    "--max-messages": "limit the number of records with --number",
    "--num": "limit the number of records with --number",
    "--timeout-ms": "limit the time with --timeout, such as 30s",
    "--print-key": _FORMAT,
    "--property": _FORMAT,
    "--formatter": _FORMAT,
    "--consumer-property": _SETTING,
    "--producer-property": _SETTING,
    "--command-property": _SETTING,
    "--consumer.config": _FILE,
    "--producer.config": _FILE,
    "--command-config": _FILE,
    "--config": "give settings of a topic with -o KEY=VALUE",
    "--topic-config": "give settings of a topic with -o KEY=VALUE",
    "--add-config": "use ottla configs set",
    "--delete-config": "use ottla configs unset",
    "--entity-type": "use ottla configs or ottla quotas",
    "--entity-name": "use ottla configs or ottla quotas",
    "--replication-factor": "use --replicas when a topic is created",
    "--if-not-exists": "use --if-missing",
    "--reset-offsets": "use ottla groups reset",
    "--to-earliest": _PLACE,
    "--to-latest": _PLACE,
    "--to-current": _PLACE,
    "--to-offset": _PLACE,
    "--to-datetime": _PLACE,
    "--by-duration": _PLACE,
    "--shift-by": "use --shift",
    "--from-file": "use --from-csv",
    "--export": "use --csv",
    **{f"--{verb}": _VERB.format(verb=verb) for verb in ("list", "describe", "delete")},
    "--create": "use ottla topics create",
    "--alter": "use ottla topics alter",
}
"""By the option: what to use instead."""
