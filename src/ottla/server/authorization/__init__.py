"""Authorization of requests, API by API; only brokers with an authorizer import it. `guards.py` has
a row for each API: the operation on which resources it needs, and the response if that is denied. A
guard passes the allowed part of the request to the API's handler, which knows nothing of
authorization. Kafka's counterparts: the checks in `KafkaApis` and `ControllerApis`, `AuthHelper`.
"""
