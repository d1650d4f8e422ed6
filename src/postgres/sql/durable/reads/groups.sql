-- The consumer groups of a tenant, one row for each queue, with their sums. Where a partition begins and
-- ends is asked once, whatever the number of its groups; how: as in `queues.sql`.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), page AS MATERIALIZED (
  SELECT known.* FROM queen.durable_group AS known WHERE known.tenant = $1::uuid
  ORDER BY known.queue, known.name LIMIT $2::bigint OFFSET $3::bigint
), queues AS MATERIALIZED (
  SELECT queue.id, names.queue AS name
  FROM (SELECT DISTINCT page.queue FROM page) AS names
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_queue AS stored
    WHERE stored.tenant = $1::uuid AND stored.name = names.queue OFFSET 0
  ) AS queue
), tails AS MATERIALIZED (
  SELECT queues.name AS queue, part.id, newest.behind, newest.base_offset AS newest_base,
         newest.created_us AS newest_us, oldest.base_offset AS first_offset
  FROM queues
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_partition AS stored WHERE stored.queue_id = queues.id OFFSET 0
  ) AS part
  LEFT JOIN LATERAL (
    SELECT segment.base_offset + segment.count AS behind, segment.base_offset, segment.created_us
    FROM queen.durable_segment AS segment WHERE segment.partition_id = part.id
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest ON true
  LEFT JOIN LATERAL (
    SELECT segment.base_offset FROM queen.durable_segment AS segment
    WHERE segment.partition_id = part.id ORDER BY segment.base_offset LIMIT 1
  ) AS oldest ON true
), cursors AS MATERIALIZED (
  SELECT page.id AS group_id, held.*
  FROM page CROSS JOIN clock
  CROSS JOIN LATERAL (
    SELECT stored.partition_id, stored.committed,
           stored.lease_id IS NOT NULL AND stored.lease_until_us > clock.now_us AS is_leased
    FROM queen.durable_cursor AS stored WHERE stored.group_id = page.id OFFSET 0
  ) AS held
), places AS (
  SELECT page.id AS group_id, tails.id, tails.behind, tails.newest_base, tails.newest_us,
         cursors.partition_id IS NOT NULL AS is_stored, coalesce(cursors.is_leased, false) AS is_leased,
         least(tails.behind, greatest(tails.first_offset, coalesce(cursors.committed, 0))) AS since
  FROM tails
  JOIN page ON page.queue = tails.queue
  LEFT JOIN cursors ON cursors.group_id = page.id AND cursors.partition_id = tails.id
), sums AS MATERIALIZED (
  SELECT places.group_id, count(*) FILTER (WHERE places.is_leased) AS members,
         count(*) FILTER (WHERE places.is_stored) AS cursors,
         count(*) FILTER (WHERE places.behind > places.since) AS partitions_behind,
         coalesce(sum(places.behind - places.since), 0)::bigint AS lag,
         coalesce(max(clock.now_us - coalesce(waiting.created_us, places.newest_us))
                  FILTER (WHERE places.behind > places.since), 0)::bigint AS lag_us
  FROM places CROSS JOIN clock
  LEFT JOIN LATERAL (
    SELECT segment.created_us FROM queen.durable_segment AS segment
    WHERE places.since < places.newest_base
      AND segment.partition_id = places.id AND segment.base_offset <= places.since
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS waiting ON true
  GROUP BY places.group_id
)
SELECT page.name, page.queue, page.mode, page.from_us, page.created_us,
       coalesce(sums.members, 0) AS members, coalesce(sums.cursors, 0) AS cursors,
       coalesce(sums.partitions_behind, 0) AS partitions_behind,
       coalesce(sums.lag, 0) AS lag, greatest(coalesce(sums.lag_us, 0), 0) AS lag_us
FROM page LEFT JOIN sums ON sums.group_id = page.id
ORDER BY page.queue, page.name
