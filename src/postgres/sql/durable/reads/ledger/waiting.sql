-- When the messages at some places ($2) of partitions ($1) were accepted, or later ones of their segments.
SELECT array_agg(asked.id) AS ids, array_agg(asked.since) AS places, array_agg(segment.created_us) AS times
FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS since) AS asked
CROSS JOIN LATERAL (
  SELECT stored.created_us FROM queen.durable_segment AS stored
  WHERE stored.partition_id = asked.id AND stored.base_offset <= asked.since
  ORDER BY stored.base_offset DESC LIMIT 1
) AS segment
