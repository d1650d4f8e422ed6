-- Forgets old removals, and remembers up to which revision: who has not seen that one reads everything.
WITH forgotten AS (
  DELETE FROM queen.ephemeral_queue_removed WHERE (tenant, queue) IN (
    SELECT tenant, queue FROM queen.ephemeral_queue_removed
    WHERE removed_at < now() - $1 * interval '1 second'
    ORDER BY revision LIMIT $2
  ) RETURNING revision
)
UPDATE queen.revision
SET purged = greatest(purged, (SELECT max(revision) FROM forgotten))
WHERE EXISTS (SELECT FROM forgotten)
