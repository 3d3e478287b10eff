"""What a client may do of what it asks, API by API; only brokers with an authorizer load this.

`guards.py` has a row for each API: which operation on which resources it needs, and what is
answered where that is denied. A guard hands the rest of the request to the API's handler, which
knows of no authorization. Kafka's counterparts: the checks in `KafkaApis` and `ControllerApis`,
`AuthHelper`.
"""
