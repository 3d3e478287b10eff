"""Users with SCRAM passwords, access rules, and delegation tokens.

Names are Kafka's. `security_messages.py` builds the requests, and is imported with the first one,
since few commands need it.
"""

from collections.abc import Iterable

from ottla.client.administration.asking import Asking, check_all, refused
from ottla.client.administration.security_values import (
    EVERY_ACL,
    AclBinding,
    AclBindingFilter,
    DelegationToken,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)


class SecurityAdmin(Asking):
    """Reads and changes users, access rules and delegation tokens."""

    # Users

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """The mechanisms of users with passwords, and their iterations. For some users, or for all.
        Raises `RefusedError`.

        >>> pot = ottla.UserScramCredentialUpsertion(
        ...     user="ana", mechanism="SCRAM-SHA-256", password="pot")
        >>> admin.alter_user_scram_credentials([pot])
        >>> admin.describe_user_scram_credentials()
        {'ana': {'SCRAM-SHA-256': 4096}}
        """
        from ottla.client.administration import security_messages as messages

        request = messages.describe_users(users)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("users", answer.error_code, answer.error_message)
        check_all({f"user {one.user}": one for one in answer.results})
        return messages.mechanisms(answer.results)

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> None:
        """Sets and removes passwords, which do not leave this process. Raises `RefusedError`.

        >>> pot = ottla.UserScramCredentialUpsertion(
        ...     user="ana", mechanism="SCRAM-SHA-256", password="pot")
        >>> admin.alter_user_scram_credentials([pot])
        >>> gone = ottla.UserScramCredentialDeletion(user="ana", mechanism="SCRAM-SHA-256")
        >>> admin.alter_user_scram_credentials([gone])
        >>> admin.describe_user_scram_credentials()
        {}
        """
        from ottla.client.administration import security_messages as messages

        request = messages.alter_users(alterations)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({f"user {one.user}": one for one in answer.results})

    # Access rules

    def describe_acls(self, wanted: AclBindingFilter = EVERY_ACL) -> list[AclBinding]:
        """The rules that match, or all; raises `RefusedError`, also without an authorizer.

        >>> acl = ottla.AclBinding(name="orders", principal="User:ana", operation="READ")
        >>> admin.create_acls([acl])
        >>> [one.operation for one in admin.describe_acls()]
        ['READ']
        """
        from ottla.client.administration import security_messages as messages

        request = messages.describe_acls(wanted)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("ACLs", answer.error_code, answer.error_message)
        return messages.described_acls(answer.resources)

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Raises `RefusedError`.

        >>> acl = ottla.AclBinding(name="logs-", pattern_type="PREFIXED", principal="User:ana",
        ...                        operation="WRITE")
        >>> admin.create_acls([acl])
        >>> admin.describe_acls() == [acl]
        True
        """
        from ottla.client.administration import security_messages as messages

        acls = list(acls)
        request = messages.create_acls(acls)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all(dict(zip(map(messages.acl_text, acls), answer.results, strict=True)))

    def delete_acls(self, filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
        """Removes the rules that match, and returns them. Raises `RefusedError`.

        >>> acl = ottla.AclBinding(name="orders", principal="User:ana", operation="READ")
        >>> admin.create_acls([acl])
        >>> gone = admin.delete_acls([ottla.AclBindingFilter(principal="User:ana")])
        >>> gone == [acl]
        True
        """
        from ottla.client.administration import security_messages as messages

        request = messages.delete_acls(filters)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({f"ACL filter {n + 1}": one for n, one in enumerate(answer.filter_results)})
        return messages.deleted_acls(answer.filter_results)

    # Delegation tokens

    def create_delegation_token(
        self,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Creates a token for an owner, by default the requesting user, who must have logged in. A
        client logs in with its `token_id` and `secret` (in base64) by SCRAM. Raises `RefusedError`.

        >>> token = admin.create_delegation_token(renewers=["bob"])
        >>> token.owner.name, token.renewers[0].name
        ('ana', 'bob')
        """
        from ottla.client.administration import security_messages as messages

        names = list(renewers)
        request = messages.create_token(owner, names, max_lifetime_ms)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return messages.created_token(answer, names)

    def describe_delegation_token(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """The tokens that the client may see, for some owners or all; raises `RefusedError`.

        >>> token = admin.create_delegation_token()
        >>> token.token_id in [one.token_id for one in admin.describe_delegation_token(["ana"])]
        True
        """
        from ottla.client.administration import security_messages as messages

        request = messages.describe_tokens(owners)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation tokens": answer})
        return [messages.described_token(one) for one in answer.tokens]

    def renew_delegation_token(self, secret: bytes, renew_period_ms: int = -1) -> int:
        """Renews a token; returns its new expiry in milliseconds since 1970. Raises `RefusedError`.

        >>> token = admin.create_delegation_token()
        >>> token.issued_ms < admin.renew_delegation_token(token.secret, 60_000) <= token.max_ms
        True
        """
        from ottla.client.administration import security_messages as messages

        request = messages.renew_token(secret, renew_period_ms)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return int(answer.expiry_timestamp_ms)

    def expire_delegation_token(self, secret: bytes, expiry_period_ms: int = -1) -> int:
        """Expires a token after a time, or at once; raises `RefusedError`.

        >>> token = admin.create_delegation_token()
        >>> _ = admin.expire_delegation_token(token.secret)
        >>> token.token_id in [one.token_id for one in admin.describe_delegation_token()]
        False
        """
        from ottla.client.administration import security_messages as messages

        request = messages.expire_token(secret, expiry_period_ms)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({"delegation token": answer})
        return int(answer.expiry_timestamp_ms)
