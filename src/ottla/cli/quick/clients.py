"""Code and commands with which common clients reach a broker."""

CLIENTS = {
    "confluent-kafka": 'Producer({{"bootstrap.servers": "{address}"}})',
    "kafka-python": 'KafkaProducer(bootstrap_servers="{address}")',
    "aiokafka": 'AIOKafkaProducer(bootstrap_servers="{address}")',
    "kcat": "kcat -b {address} -L",
    "java": 'properties.put("bootstrap.servers", "{address}");',
    "spark": 'spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{address}")',
    "franz-go": 'kgo.NewClient(kgo.SeedBrokers("{address}"))',
    "kafkajs": 'new Kafka({{ brokers: ["{address}"] }})',
}
"""By client: a line with a placeholder for the address."""


def settings_lines(address: str) -> dict[str, str]:
    """Returns one line of code or shell for each client."""
    return {client: text.format(address=address) for client, text in CLIENTS.items()}
