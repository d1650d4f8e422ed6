-- Partitions of a queue by name, those only that were written to since. The first row says whether there
-- is such a queue.
SELECT found.id IS NOT NULL AS is_known, part.*
FROM (SELECT 1) AS always
LEFT JOIN LATERAL (
  SELECT queue.id FROM queen.durable_queue AS queue
  WHERE queue.tenant = $1::uuid AND queue.name = $2::text
) AS found ON true
LEFT JOIN LATERAL (
  SELECT stored.name, stored.id, oldest.base_offset AS first_offset, newest.behind AS next_offset,
         coalesce(newest.created_us, stored.created_us) AS written_us
  FROM queen.durable_partition AS stored
  LEFT JOIN LATERAL (
    SELECT segment.base_offset + segment.count AS behind, segment.created_us
    FROM queen.durable_segment AS segment WHERE segment.partition_id = stored.id
    ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest ON true
  LEFT JOIN LATERAL (
    SELECT segment.base_offset FROM queen.durable_segment AS segment
    WHERE segment.partition_id = stored.id ORDER BY segment.base_offset LIMIT 1
  ) AS oldest ON true
  WHERE stored.queue_id = found.id
    AND ($3::text IS NULL OR stored.name > $3::text)
    AND ($4::bigint IS NULL OR coalesce(newest.created_us, stored.created_us) >= $4::bigint)
  ORDER BY stored.name LIMIT $5::bigint
) AS part ON true
