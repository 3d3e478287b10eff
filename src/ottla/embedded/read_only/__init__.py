"""A broker that only reads: the requests of an `Admin` about log directories, from their files.

The server's own handlers answer them, over what the directories' metadata log and logs say. Nothing
is locked, repaired or written: it works in a directory of another Kafka, and while another process
has it open.
"""
