-- The newest segments of a partition that may hold a transaction id: its hash is in them somewhere.
SELECT segment.base_offset, segment.hashes
FROM queen.durable_segment AS segment
WHERE segment.partition_id = $1::bigint AND segment.base_offset < $2::bigint
  AND position($3::bytea IN segment.hashes) > 0
ORDER BY segment.base_offset DESC LIMIT $4::bigint
