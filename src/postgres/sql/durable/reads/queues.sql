-- Queues of a tenant by name, each with its sums: all of them, those of a namespace or a task, or one.
-- With a group, what is left to do is left to that group; without one, to the slowest. Asked where the
-- reader cannot remember the partitions (`ledger/`), which has to come to the same.
--
-- Where a partition begins and ends is asked of its segments, from both sides of the index: two looks for
-- each partition, whatever is stored. Where groups stand is read group by group and joined by a hash. The
-- rows and bytes of a partition are taken to be like the newest row: counting them would be a look at
-- each. How long what waits has waited is told by the segment that it is in, which is looked for only
-- where it is neither the oldest nor the newest. OFFSET 0 keeps each look one by the key.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), page AS MATERIALIZED (
  SELECT queue.* FROM queen.durable_queue AS queue
  WHERE queue.tenant = $1::uuid
    AND ($2::text IS NULL OR queue.name = $2::text)
    AND ($3::text IS NULL OR queue.namespace = $3::text)
    AND ($4::text IS NULL OR queue.task = $4::text)
    AND ($6::text IS NULL OR queue.name > $6::text)
  ORDER BY queue.name LIMIT $7::bigint OFFSET $8::bigint
), groups AS MATERIALIZED (
  SELECT page.id AS queue_id, known.id
  FROM page
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_group AS stored
    WHERE stored.tenant = $1::uuid AND stored.queue = page.name
      AND ($5::text IS NULL OR stored.name = $5::text) OFFSET 0
  ) AS known
), group_counts AS MATERIALIZED (
  SELECT groups.queue_id, count(*) AS groups FROM groups GROUP BY groups.queue_id
), places AS MATERIALIZED (
  SELECT held.partition_id, count(*) AS groups, min(held.committed) AS committed,
         max(CASE WHEN held.is_leased THEN held.batch_end - held.committed ELSE 0 END) AS processing,
         count(*) FILTER (WHERE held.is_leased) AS leases,
         count(*) FILTER (WHERE held.retries > 0) AS failed
  FROM groups CROSS JOIN clock
  CROSS JOIN LATERAL (
    SELECT stored.partition_id, stored.committed, stored.batch_end, stored.retries,
           stored.lease_id IS NOT NULL AND stored.lease_until_us > clock.now_us AS is_leased
    FROM queen.durable_cursor AS stored WHERE stored.group_id = groups.id OFFSET 0
  ) AS held
  GROUP BY held.partition_id
), tails AS MATERIALIZED (
  SELECT page.id AS queue_id, part.id, newest.behind, newest.base_offset AS newest_base,
         newest.created_us AS newest_us, newest.count AS newest_count, newest.bytes AS newest_bytes,
         oldest.base_offset AS first_offset
  FROM page
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_partition AS stored WHERE stored.queue_id = page.id OFFSET 0
  ) AS part
  LEFT JOIN LATERAL (
    SELECT segment.base_offset + segment.count AS behind, segment.base_offset, segment.created_us,
           segment.count::bigint AS count,
           octet_length(segment.payload)::bigint + octet_length(segment.hashes) AS bytes
    FROM queen.durable_segment AS segment WHERE segment.partition_id = part.id
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest ON true
  LEFT JOIN LATERAL (
    SELECT segment.base_offset FROM queen.durable_segment AS segment
    WHERE segment.partition_id = part.id ORDER BY segment.base_offset LIMIT 1
  ) AS oldest ON true
), parts AS (
  SELECT tails.*, coalesce(places.processing, 0) AS processing, coalesce(places.leases, 0) AS leases,
         coalesce(places.failed, 0) AS failed,
         -- A group without a place there stands at the beginning.
         least(tails.behind, greatest(tails.first_offset, CASE
           WHEN places.groups = group_counts.groups THEN places.committed ELSE 0 END)) AS since
  FROM tails
  LEFT JOIN group_counts ON group_counts.queue_id = tails.queue_id
  LEFT JOIN places ON places.partition_id = tails.id
), sums AS MATERIALIZED (
  SELECT parts.queue_id, count(*) AS partitions,
         coalesce(sum(parts.behind - parts.first_offset), 0)::bigint AS stored,
         coalesce(sum(parts.behind - parts.since), 0)::bigint AS pending,
         coalesce(sum(least(parts.processing, parts.behind - parts.since)), 0)::bigint AS processing,
         sum(parts.failed)::bigint AS failed, sum(parts.leases)::bigint AS leases,
         coalesce(sum((parts.behind - parts.first_offset + parts.newest_count - 1)
                      / parts.newest_count), 0)::bigint AS segments,
         coalesce(sum((parts.behind - parts.first_offset) * parts.newest_bytes
                      / parts.newest_count), 0)::bigint AS bytes,
         count(*) FILTER (WHERE parts.behind > parts.since) AS partitions_pending,
         count(*) FILTER (WHERE parts.behind > parts.since AND parts.processing = 0) AS partitions_ready,
         coalesce(min(parts.behind - parts.since) FILTER (WHERE parts.behind > parts.since),
                  0)::bigint AS pending_min,
         coalesce(max(parts.behind - parts.since), 0)::bigint AS pending_max,
         coalesce(sum(age.us), 0)::bigint AS lag_sum_us,
         coalesce(min(age.us), 0)::bigint AS lag_min_us,
         coalesce(max(age.us), 0)::bigint AS lag_max_us
  FROM parts CROSS JOIN clock
  LEFT JOIN LATERAL (
    SELECT segment.created_us FROM queen.durable_segment AS segment
    WHERE $9::boolean AND parts.since < parts.newest_base
      AND segment.partition_id = parts.id AND segment.base_offset <= parts.since
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS waiting ON true
  CROSS JOIN LATERAL (
    SELECT CASE WHEN $9::boolean AND parts.since < parts.behind
           THEN greatest(clock.now_us - coalesce(waiting.created_us, parts.newest_us), 0) END AS us
  ) AS age
  GROUP BY parts.queue_id
)
SELECT page.id, page.name, page.namespace, page.task, page.options::text AS options, page.created_us,
       clock.now_us,
       coalesce(sums.partitions, 0) AS partitions, coalesce(sums.stored, 0) AS stored,
       coalesce(sums.pending, 0) AS pending, coalesce(sums.processing, 0) AS processing,
       coalesce(sums.failed, 0) AS failed, coalesce(sums.leases, 0) AS leases,
       coalesce(sums.segments, 0) AS segments, coalesce(sums.bytes, 0) AS bytes,
       coalesce(sums.partitions_pending, 0) AS partitions_pending,
       coalesce(sums.partitions_ready, 0) AS partitions_ready,
       coalesce(sums.pending_min, 0) AS pending_min, coalesce(sums.pending_max, 0) AS pending_max,
       coalesce(sums.lag_sum_us, 0) AS lag_sum_us, coalesce(sums.lag_min_us, 0) AS lag_min_us,
       coalesce(sums.lag_max_us, 0) AS lag_max_us,
       (SELECT count(*) FROM queen.dead_letter AS letter WHERE letter.queue_id = page.id) AS dead_letters
FROM page CROSS JOIN clock LEFT JOIN sums ON sums.queue_id = page.id
ORDER BY page.name
