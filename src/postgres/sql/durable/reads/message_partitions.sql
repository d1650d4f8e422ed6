-- Partitions by their ids, with their queues, and where each group of the queue stands there.
SELECT part.id AS partition_id, part.name AS partition, queue.id, queue.name, queue.namespace, queue.task,
       queue.options::text AS options, queue.created_us,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
       known.name AS group_name, coalesce(cursor.committed, 0) AS committed,
       coalesce(cursor.batch_end, 0) AS batch_end, coalesce(cursor.retries, 0) AS retries,
       coalesce(cursor.settled_us, 0) AS settled_us,
       CASE WHEN cursor.lease_id IS NOT NULL THEN cursor.lease_until_us ELSE 0 END AS lease_until_us
FROM unnest($2::bigint[]) AS asked (id)
CROSS JOIN LATERAL (
  SELECT stored.* FROM queen.durable_partition AS stored WHERE stored.id = asked.id OFFSET 0
) AS part
CROSS JOIN LATERAL (
  SELECT stored.* FROM queen.durable_queue AS stored WHERE stored.id = part.queue_id OFFSET 0
) AS queue
LEFT JOIN LATERAL (
  SELECT stored.id, stored.name FROM queen.durable_group AS stored
  WHERE stored.tenant = $1::uuid AND stored.queue = queue.name OFFSET 0
) AS known ON true
LEFT JOIN LATERAL (
  SELECT held.* FROM queen.durable_cursor AS held
  WHERE held.group_id = known.id AND held.partition_id = part.id OFFSET 0
) AS cursor ON true
WHERE queue.tenant = $1::uuid
ORDER BY part.id, known.name
