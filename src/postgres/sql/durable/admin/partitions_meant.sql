-- The queue, and how many partitions are meant: all of them, or those of a name ($3), which is one.
SELECT owner.id, (
  SELECT count(*) FROM queen.durable_partition AS stored
  WHERE stored.queue_id = owner.id AND ($3::text IS NULL OR stored.name = $3)
) AS partitions
FROM queen.durable_queue AS owner
WHERE owner.tenant = $1 AND owner.name = $2
