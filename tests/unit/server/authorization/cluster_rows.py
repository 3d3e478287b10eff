"""Requests about the cluster as a whole."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import alter_client_quotas as alter_quotas
from ottla.protocol.messages import alter_partition_reassignments as reassign
from ottla.protocol.messages import alter_replica_log_dirs as move
from ottla.protocol.messages import alter_user_scram_credentials as alter_users
from ottla.protocol.messages import (
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
)
from tests.unit.server.authorization.row import TOPIC, C, Op, Row

ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.DESCRIBE_ACLS: [
        Row(
            lambda: describe_acls.DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
            2,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.CREATE_ACLS: [
        Row(
            lambda: create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()]),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DELETE_ACLS: [
        Row(
            lambda: delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()]),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        Row(
            lambda: move.AlterReplicaLogDirsRequest(
                dirs=[
                    move.AlterReplicaLogDir(
                        path="/x",
                        topics=[move.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])],
                    )
                ]
            ),
            2,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DESCRIBE_LOG_DIRS: [
        Row(lambda: describe_log_dirs.DescribeLogDirsRequest(topics=None), 3, ((Op.DESCRIBE, C),))
    ],
    ApiKey.ELECT_LEADERS: [
        Row(lambda: elect_leaders.ElectLeadersRequest(topic_partitions=None), 2, ((Op.ALTER, C),)),
        Row(
            lambda: elect_leaders.ElectLeadersRequest(
                topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])]
            ),
            0,
            ((Op.ALTER, C),),
        ),
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [
        Row(reassign.AlterPartitionReassignmentsRequest, 0, ((Op.ALTER, C),))
    ],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [
        Row(
            list_partition_reassignments.ListPartitionReassignmentsRequest,
            0,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [
        Row(
            describe_client_quotas.DescribeClientQuotasRequest,
            1,
            ((Op.DESCRIBE_CONFIGS, C),),
        )
    ],
    ApiKey.ALTER_CLIENT_QUOTAS: [
        Row(
            lambda: alter_quotas.AlterClientQuotasRequest(entries=[alter_quotas.EntryData()]),
            1,
            ((Op.ALTER_CONFIGS, C),),
        )
    ],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [
        Row(
            lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
            0,
            ((Op.DESCRIBE, C),),
        )
    ],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        Row(
            lambda: alter_users.AlterUserScramCredentialsRequest(
                deletions=[alter_users.ScramCredentialDeletion(name="bob", mechanism=1)]
            ),
            0,
            ((Op.ALTER, C),),
        )
    ],
    ApiKey.DESCRIBE_CLUSTER: [
        Row(
            lambda: describe_cluster.DescribeClusterRequest(
                include_cluster_authorized_operations=True
            ),
            0,
            ((Op.DESCRIBE, C),),
            shows=lambda answer: answer.cluster_authorized_operations,
        )
    ],
    ApiKey.LIST_CONFIG_RESOURCES: [
        Row(list_config_resources.ListConfigResourcesRequest, 0, ((Op.DESCRIBE_CONFIGS, C),))
    ],
}
