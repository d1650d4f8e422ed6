-- Segments by their keys.
SELECT asked.place, stored.base_offset, stored.count, stored.payload
FROM (
  SELECT unnest($1::bigint[]) AS partition_id, unnest($2::bigint[]) AS base_offset,
         generate_subscripts($1::bigint[], 1)::bigint AS place
) AS asked
CROSS JOIN LATERAL (
  SELECT segment.base_offset, segment.count, segment.payload FROM queen.durable_segment AS segment
  WHERE segment.partition_id = asked.partition_id AND segment.base_offset = asked.base_offset OFFSET 0
) AS stored
ORDER BY asked.place
