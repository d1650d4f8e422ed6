-- A new group ($1) at the end of each partition of the queue, or at the first message accepted at or
-- after a time ($4). Where that is the beginning it needs no row.
INSERT INTO queen.durable_cursor (
  group_id, partition_id, version, committed, batch_end, lease_until_us, held_until_us,
  settled_us, settled_count, retries, attempts, lease_id
)
SELECT $1, start.partition_id, 1, start.place, start.place, 0, 0, 0, 0, 0, 0, NULL
FROM queen.durable_queue AS owner
CROSS JOIN LATERAL (
  SELECT stored.id AS partition_id,
         CASE WHEN $4::bigint IS NULL THEN coalesce((
           SELECT segment.base_offset + segment.count FROM queen.durable_segment AS segment
           WHERE segment.partition_id = stored.id ORDER BY segment.base_offset DESC LIMIT 1
         ), 0) ELSE queen.durable_offset_at(stored.id, $4::bigint) END AS place
  FROM queen.durable_partition AS stored WHERE stored.queue_id = owner.id OFFSET 0
) AS start
WHERE owner.tenant = $2 AND owner.name = $3 AND start.place > 0
