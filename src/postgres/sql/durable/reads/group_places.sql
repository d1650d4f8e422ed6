-- The places of a group, by queue and partition; a queue in which it has none is a row without one.
SELECT page.queue, page.partition, page.lease_id, page.settled_us, page.settled_count,
       greatest(coalesce(newest.behind - left_over.since, 0), 0) AS lag,
       greatest(page.now_us - waiting.created_us, 0) AS lag_us
FROM (
  SELECT known.queue, part.name AS partition, part.id, cursor.committed, cursor.settled_us,
         cursor.settled_count, clock.now_us,
         CASE WHEN cursor.lease_until_us > clock.now_us THEN cursor.lease_id END AS lease_id
  FROM (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
  ) AS clock
  CROSS JOIN queen.durable_group AS known
  LEFT JOIN LATERAL (
    SELECT held.* FROM queen.durable_cursor AS held WHERE held.group_id = known.id OFFSET 0
  ) AS cursor ON true
  LEFT JOIN LATERAL (
    SELECT stored.id, stored.name FROM queen.durable_partition AS stored
    WHERE stored.id = cursor.partition_id OFFSET 0
  ) AS part ON true
  WHERE known.tenant = $1::uuid AND known.name = $2::text
  ORDER BY known.queue, part.name LIMIT $3::bigint OFFSET $4::bigint
) AS page
LEFT JOIN LATERAL (
  SELECT segment.base_offset + segment.count AS behind
  FROM queen.durable_segment AS segment WHERE segment.partition_id = page.id
  ORDER BY segment.base_offset DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
  SELECT segment.base_offset FROM queen.durable_segment AS segment
  WHERE segment.partition_id = page.id ORDER BY segment.base_offset LIMIT 1
) AS oldest ON true
CROSS JOIN LATERAL (
  SELECT greatest(page.committed, oldest.base_offset) AS since
) AS left_over
LEFT JOIN LATERAL (
  SELECT segment.created_us FROM queen.durable_segment AS segment
  WHERE left_over.since < newest.behind
    AND segment.partition_id = page.id AND segment.base_offset <= left_over.since
  ORDER BY segment.base_offset DESC LIMIT 1
) AS waiting ON true
ORDER BY page.queue, page.partition
