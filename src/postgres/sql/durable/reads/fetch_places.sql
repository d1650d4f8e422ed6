-- Where the partitions that are named begin and end; nothing where there is none.
SELECT asked.place, part.id, oldest.base_offset AS first_offset, newest.behind AS next_offset
FROM (
  SELECT unnest($2::text[]) AS queue, unnest($3::text[]) AS partition,
         generate_subscripts($2::text[], 1)::bigint AS place
) AS asked
CROSS JOIN LATERAL (
  SELECT stored.id FROM queen.durable_queue AS stored
  WHERE stored.tenant = $1::uuid AND stored.name = asked.queue OFFSET 0
) AS queue
CROSS JOIN LATERAL (
  SELECT stored.id FROM queen.durable_partition AS stored
  WHERE stored.queue_id = queue.id AND stored.name = asked.partition OFFSET 0
) AS part
LEFT JOIN LATERAL (
  SELECT segment.base_offset FROM queen.durable_segment AS segment
  WHERE segment.partition_id = part.id ORDER BY segment.base_offset LIMIT 1
) AS oldest ON true
LEFT JOIN LATERAL (
  SELECT segment.base_offset + segment.count AS behind
  FROM queen.durable_segment AS segment WHERE segment.partition_id = part.id
  ORDER BY segment.base_offset DESC LIMIT 1
) AS newest ON true
ORDER BY asked.place
