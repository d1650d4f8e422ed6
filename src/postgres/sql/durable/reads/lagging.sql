-- Where the groups of a tenant are behind, the oldest message first. How they are looked for: as in
-- `queues.sql`.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), known AS MATERIALIZED (
  SELECT stored.id, stored.name, stored.queue FROM queen.durable_group AS stored
  WHERE stored.tenant = $1::uuid
), queues AS MATERIALIZED (
  SELECT queue.id, names.queue AS name
  FROM (SELECT DISTINCT known.queue FROM known) AS names
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_queue AS stored
    WHERE stored.tenant = $1::uuid AND stored.name = names.queue OFFSET 0
  ) AS queue
), tails AS MATERIALIZED (
  SELECT queues.name AS queue, part.id, part.name, newest.behind, newest.base_offset AS newest_base,
         newest.created_us AS newest_us, oldest.base_offset AS first_offset
  FROM queues
  CROSS JOIN LATERAL (
    SELECT stored.id, stored.name FROM queen.durable_partition AS stored
    WHERE stored.queue_id = queues.id OFFSET 0
  ) AS part
  CROSS JOIN LATERAL (
    SELECT segment.base_offset + segment.count AS behind, segment.base_offset, segment.created_us
    FROM queen.durable_segment AS segment WHERE segment.partition_id = part.id
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest
  CROSS JOIN LATERAL (
    SELECT segment.base_offset FROM queen.durable_segment AS segment
    WHERE segment.partition_id = part.id ORDER BY segment.base_offset LIMIT 1
  ) AS oldest
), cursors AS MATERIALIZED (
  SELECT known.id AS group_id, held.*
  FROM known CROSS JOIN clock
  CROSS JOIN LATERAL (
    SELECT stored.partition_id, stored.committed, stored.settled_us,
           CASE WHEN stored.lease_until_us > clock.now_us THEN stored.lease_id END AS lease_id
    FROM queen.durable_cursor AS stored WHERE stored.group_id = known.id OFFSET 0
  ) AS held
), places AS (
  SELECT known.name AS group_name, tails.*, cursors.lease_id, cursors.settled_us,
         greatest(tails.first_offset, coalesce(cursors.committed, 0)) AS since
  FROM tails
  JOIN known ON known.queue = tails.queue
  LEFT JOIN cursors ON cursors.group_id = known.id AND cursors.partition_id = tails.id
  WHERE coalesce(cursors.committed, 0) < tails.behind
), ages AS (
  SELECT places.*, coalesce(waiting.created_us, places.newest_us) AS oldest_us, clock.now_us
  FROM places CROSS JOIN clock
  LEFT JOIN LATERAL (
    SELECT segment.created_us FROM queen.durable_segment AS segment
    WHERE places.since < places.newest_base
      AND segment.partition_id = places.id AND segment.base_offset <= places.since
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS waiting ON true
)
SELECT ages.group_name, ages.queue, ages.name AS partition, ages.id AS partition_id, ages.lease_id,
       ages.behind - ages.since AS lag, ages.now_us - ages.oldest_us AS lag_us, ages.oldest_us,
       ages.settled_us
FROM ages
WHERE ages.now_us - ages.oldest_us > $2::bigint
ORDER BY ages.oldest_us, ages.queue, ages.name, ages.group_name
LIMIT $3::bigint OFFSET $4::bigint
