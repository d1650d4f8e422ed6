-- Puts a group ($1) in its place in the partitions of a queue ($2), all or the one of a name ($3): at the
-- first message accepted at or after a time ($4), at an offset ($5) or the nearest that is kept, or behind
-- the newest message. Leases and retries end. OFFSET 0 keeps each look-up by the key.
INSERT INTO queen.durable_cursor AS stored (
  group_id, partition_id, version, committed, batch_end, lease_until_us, held_until_us,
  settled_us, settled_count, retries, attempts, lease_id
)
SELECT $1, meant.id, 1, meant.place, meant.place, 0, 0, 0, 0, 0, 0, NULL
FROM (
  SELECT home.id,
         CASE WHEN $4::bigint IS NOT NULL THEN queen.durable_offset_at(home.id, $4::bigint)
         ELSE least(
           coalesce((
             SELECT segment.base_offset + segment.count FROM queen.durable_segment AS segment
             WHERE segment.partition_id = home.id ORDER BY segment.base_offset DESC LIMIT 1
           ), 0),
           greatest($5::bigint, CASE WHEN $5::bigint IS NOT NULL THEN (
             SELECT segment.base_offset FROM queen.durable_segment AS segment
             WHERE segment.partition_id = home.id ORDER BY segment.base_offset LIMIT 1
           ) END)
         ) END AS place
  FROM queen.durable_partition AS home
  WHERE home.queue_id = $2 AND ($3::text IS NULL OR home.name = $3)
  OFFSET 0
) AS meant
ON CONFLICT (group_id, partition_id) DO UPDATE
SET version = stored.version + 1, committed = excluded.committed, batch_end = excluded.batch_end,
    lease_id = NULL, lease_until_us = 0, held_until_us = 0, retries = 0, attempts = 0
