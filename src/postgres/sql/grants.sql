SELECT tenant, enabled, max_bytes, max_queues, max_messages_per_second FROM queen.ephemeral_grant
