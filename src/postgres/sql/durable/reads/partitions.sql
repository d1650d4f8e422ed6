-- Partitions of a queue by name, each with its numbers. A message begins with four bytes of its length,
-- one of flags and eight of its time: of the oldest segment only those are read.
SELECT page.id, page.name, page.created_us,
       coalesce(newest.behind - oldest.base_offset, 0) AS stored,
       coalesce(newest.behind - left_over.since, 0) AS pending,
       coalesce(least(place.processing, newest.behind - left_over.since), 0) AS processing,
       place.failed, oldest.first_bytes, newest.created_us AS newest_us,
       (SELECT count(*) FROM queen.dead_letter AS letter WHERE letter.partition_id = page.id) AS dead_letters
FROM (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us, ARRAY(
    SELECT known.id FROM queen.durable_group AS known
    WHERE known.tenant = $1::uuid AND known.queue = $2::text
      AND ($3::text IS NULL OR known.name = $3::text)
  ) AS groups
) AS clock
CROSS JOIN (
  SELECT stored.id, stored.name, stored.created_us FROM queen.durable_partition AS stored
  WHERE stored.queue_id = $4::bigint AND ($5::text IS NULL OR stored.name > $5::text)
  ORDER BY stored.name LIMIT $6::bigint OFFSET $7::bigint
) AS page
LEFT JOIN LATERAL (
  SELECT segment.base_offset + segment.count AS behind, segment.created_us
  FROM queen.durable_segment AS segment WHERE segment.partition_id = page.id
  ORDER BY segment.base_offset DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
  SELECT segment.base_offset, substring(segment.payload FROM 6 FOR 8) AS first_bytes
  FROM queen.durable_segment AS segment
  WHERE segment.partition_id = page.id ORDER BY segment.base_offset LIMIT 1
) AS oldest ON true
CROSS JOIN LATERAL (
  SELECT coalesce(min(coalesce(cursor.committed, 0)), 0) AS committed,
         coalesce(max(CASE WHEN cursor.lease_id IS NOT NULL AND cursor.lease_until_us > clock.now_us
                      THEN cursor.batch_end - cursor.committed END), 0) AS processing,
         count(*) FILTER (WHERE cursor.retries > 0) AS failed
  FROM unnest(clock.groups) AS known (id)
  LEFT JOIN LATERAL (
    SELECT held.* FROM queen.durable_cursor AS held
    WHERE held.group_id = known.id AND held.partition_id = page.id OFFSET 0
  ) AS cursor ON true
) AS place
CROSS JOIN LATERAL (
  SELECT least(greatest(place.committed, oldest.base_offset), newest.behind) AS since
) AS left_over
ORDER BY page.name
