-- The partitions of a tenant, or of one of its queues, in which the slowest group has most to do. How they
-- are looked for: as in `queues.sql`.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), page AS MATERIALIZED (
  SELECT queue.id, queue.name FROM queen.durable_queue AS queue
  WHERE queue.tenant = $1::uuid AND ($2::text IS NULL OR queue.name = $2::text)
), groups AS MATERIALIZED (
  SELECT page.id AS queue_id, known.id
  FROM page
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_group AS stored
    WHERE stored.tenant = $1::uuid AND stored.queue = page.name OFFSET 0
  ) AS known
), group_counts AS MATERIALIZED (
  SELECT groups.queue_id, count(*) AS groups FROM groups GROUP BY groups.queue_id
), places AS MATERIALIZED (
  SELECT held.partition_id, count(*) AS groups, min(held.committed) AS committed,
         max(held.processing) AS processing
  FROM groups CROSS JOIN clock
  CROSS JOIN LATERAL (
    SELECT stored.partition_id, stored.committed,
           CASE WHEN stored.lease_id IS NOT NULL AND stored.lease_until_us > clock.now_us
           THEN stored.batch_end - stored.committed ELSE 0 END AS processing
    FROM queen.durable_cursor AS stored WHERE stored.group_id = groups.id OFFSET 0
  ) AS held
  GROUP BY held.partition_id
), tails AS MATERIALIZED (
  SELECT page.id AS queue_id, page.name AS queue, part.id, part.name, newest.behind,
         oldest.base_offset AS first_offset
  FROM page
  CROSS JOIN LATERAL (
    SELECT stored.id, stored.name FROM queen.durable_partition AS stored
    WHERE stored.queue_id = page.id OFFSET 0
  ) AS part
  LEFT JOIN LATERAL (
    SELECT segment.base_offset + segment.count AS behind
    FROM queen.durable_segment AS segment WHERE segment.partition_id = part.id
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest ON true
  LEFT JOIN LATERAL (
    SELECT segment.base_offset FROM queen.durable_segment AS segment
    WHERE segment.partition_id = part.id ORDER BY segment.base_offset LIMIT 1
  ) AS oldest ON true
), parts AS (
  SELECT tails.queue, tails.id, tails.name, tails.behind, coalesce(places.processing, 0) AS processing,
         least(tails.behind, greatest(tails.first_offset, CASE
           WHEN places.groups = group_counts.groups THEN places.committed ELSE 0 END)) AS since
  FROM tails
  LEFT JOIN group_counts ON group_counts.queue_id = tails.queue_id
  LEFT JOIN places ON places.partition_id = tails.id
), ranked AS MATERIALIZED (
  SELECT parts.queue, parts.id, parts.name, parts.since, coalesce(parts.behind - parts.since, 0) AS pending,
         coalesce(least(parts.processing, parts.behind - parts.since), 0) AS processing
  FROM parts ORDER BY pending DESC, parts.queue, parts.name LIMIT $3::bigint
)
SELECT ranked.queue, ranked.id, ranked.name, ranked.pending, ranked.processing,
       CASE WHEN waiting.created_us IS NOT NULL THEN greatest(clock.now_us - waiting.created_us, 0) END AS lag_us
FROM ranked CROSS JOIN clock
LEFT JOIN LATERAL (
  SELECT segment.created_us FROM queen.durable_segment AS segment
  WHERE ranked.pending > 0 AND segment.partition_id = ranked.id AND segment.base_offset <= ranked.since
  ORDER BY segment.base_offset DESC LIMIT 1
) AS waiting ON true
ORDER BY ranked.pending DESC, ranked.queue, ranked.name
