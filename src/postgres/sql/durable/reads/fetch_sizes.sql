-- For each partition the segment that holds an offset and those behind it, as many as are asked for and
-- as its room allows, at least one; without the messages.
SELECT asked.place, piece.base_offset, piece.bytes
FROM (
  SELECT unnest($1::bigint[]) AS partition_id, unnest($2::bigint[]) AS first_offset,
         unnest($3::bigint[]) AS room, generate_subscripts($1::bigint[], 1)::bigint AS place
) AS asked
CROSS JOIN LATERAL (
  SELECT next.base_offset, next.bytes, sum(next.bytes) OVER (ORDER BY next.base_offset) AS running
  FROM (
    SELECT stored.base_offset, octet_length(stored.payload)::bigint AS bytes
    FROM queen.durable_segment AS stored
    WHERE stored.partition_id = asked.partition_id
      AND stored.base_offset >= coalesce((
        SELECT holder.base_offset FROM queen.durable_segment AS holder
        WHERE holder.partition_id = asked.partition_id AND holder.base_offset <= asked.first_offset
        ORDER BY holder.base_offset DESC LIMIT 1
      ), 0)
    ORDER BY stored.base_offset LIMIT $4::bigint
  ) AS next
) AS piece
WHERE piece.running - piece.bytes < asked.room
ORDER BY asked.place, piece.base_offset
