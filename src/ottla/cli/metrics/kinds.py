"""What a metric is: its kind, its labels, and its counterpart in Kafka."""

from enum import Enum

from ottla.base.values import dataclass

NONE = ()


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricName:
    """`kafka` is the MBean's type and name, `-` where Kafka has none."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    kafka: str = "-"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    metrics: tuple[MetricName, ...]


def gauge(name: str, labels: tuple[str, ...], text: str, kafka: str = "-") -> MetricName:
    return MetricName(f"ottla_{name}", Kind.GAUGE, labels, text, kafka)


def counter(name: str, labels: tuple[str, ...], text: str, kafka: str = "-") -> MetricName:
    """Exported with `_total` after the name."""
    return MetricName(f"ottla_{name}", Kind.COUNTER, labels, text, kafka)


def histogram(name: str, labels: tuple[str, ...], text: str, kafka: str = "-") -> MetricName:
    return MetricName(f"ottla_{name}", Kind.HISTOGRAM, labels, text, kafka)
