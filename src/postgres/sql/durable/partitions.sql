-- Partitions; which ones is said by whoever prepares it.
-- Where a partition begins and ends is asked of its segments, from both sides of the index.
SELECT stored.id, stored.name, stored.created_us,
       coalesce(oldest.base_offset, 0) AS first_offset,
       coalesce(newest.base_offset + newest.count, 0) AS next_offset,
       coalesce(newest.created_us, 0) AS written_us
FROM queen.durable_partition AS stored
LEFT JOIN LATERAL (
  SELECT segment.base_offset FROM queen.durable_segment AS segment
  WHERE segment.partition_id = stored.id ORDER BY segment.base_offset LIMIT 1
) AS oldest ON true
LEFT JOIN LATERAL (
  SELECT segment.base_offset, segment.count, segment.created_us FROM queen.durable_segment AS segment
  WHERE segment.partition_id = stored.id ORDER BY segment.base_offset DESC LIMIT 1
) AS newest ON true
