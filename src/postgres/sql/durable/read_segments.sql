-- For each run of offsets the segment that holds its first one, then all that begin within. What
-- retention has removed is stepped over. OFFSET 0: each run by a range of the key, whatever the table
-- holds.
SELECT piece.partition_id, piece.base_offset, piece.count, piece.payload
FROM (
  SELECT unnest($1::bigint[]) AS partition_id, unnest($2::bigint[]) AS first_offset,
         unnest($3::bigint[]) AS behind
) AS asked
CROSS JOIN LATERAL (
  SELECT stored.partition_id, stored.base_offset, stored.count, stored.payload
  FROM queen.durable_segment AS stored
  WHERE stored.partition_id = asked.partition_id AND stored.base_offset < asked.behind
    AND stored.base_offset >= coalesce((
      SELECT holder.base_offset FROM queen.durable_segment AS holder
      WHERE holder.partition_id = asked.partition_id AND holder.base_offset <= asked.first_offset
      ORDER BY holder.base_offset DESC LIMIT 1
    ), 0)
    AND stored.base_offset + stored.count > asked.first_offset
  ORDER BY stored.base_offset OFFSET 0
) AS piece
