SELECT removed_at < now() - $1 * interval '1 second' AS is_due
FROM queen.ephemeral_queue_removed ORDER BY revision LIMIT 1
