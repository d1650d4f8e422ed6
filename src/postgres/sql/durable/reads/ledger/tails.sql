-- Where partitions begin and end: all those of some queues ($1), and some by themselves ($2); at most $3.
-- In columns: a row for each of 100,000 partitions would cost as much as the looks.
WITH wanted AS MATERIALIZED (
  SELECT part.id, part.queue_id FROM unnest($1::bigint[]) AS asked (queue_id)
  CROSS JOIN LATERAL (
    SELECT stored.id, stored.queue_id FROM queen.durable_partition AS stored
    WHERE stored.queue_id = asked.queue_id OFFSET 0
  ) AS part
  UNION ALL
  SELECT part.id, part.queue_id FROM unnest($2::bigint[]) AS asked (id)
  CROSS JOIN LATERAL (
    SELECT stored.id, stored.queue_id FROM queen.durable_partition AS stored
    WHERE stored.id = asked.id OFFSET 0
  ) AS part
  LIMIT $3::bigint
)
SELECT array_agg(wanted.id) AS ids, array_agg(wanted.queue_id) AS queue_ids,
       array_agg(oldest.base_offset) AS firsts, array_agg(newest.base_offset) AS newest_bases,
       array_agg(newest.count) AS newest_counts, array_agg(newest.created_us) AS newest_times,
       array_agg(newest.bytes) AS newest_bytes
FROM wanted
LEFT JOIN LATERAL (
  SELECT segment.base_offset, segment.created_us, segment.count::bigint AS count,
         octet_length(segment.payload)::bigint + octet_length(segment.hashes) AS bytes
  FROM queen.durable_segment AS segment WHERE segment.partition_id = wanted.id
  ORDER BY segment.base_offset DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
  SELECT segment.base_offset FROM queen.durable_segment AS segment
  WHERE segment.partition_id = wanted.id ORDER BY segment.base_offset LIMIT 1
) AS oldest ON true
