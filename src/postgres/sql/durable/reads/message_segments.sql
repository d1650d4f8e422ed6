-- The newest segments of a tenant that end in a range of time, newest first, until they hold so many
-- messages. Among the newest N messages are only such of the N partitions that were written to last.
WITH candidates AS MATERIALIZED (
  SELECT part.id, newest.created_us
  FROM queen.durable_queue AS queue
  CROSS JOIN LATERAL (
    SELECT stored.id FROM queen.durable_partition AS stored
    WHERE stored.queue_id = queue.id AND ($3::text IS NULL OR stored.name = $3::text) OFFSET 0
  ) AS part
  CROSS JOIN LATERAL (
    SELECT segment.created_us FROM queen.durable_segment AS segment
    WHERE segment.partition_id = part.id ORDER BY segment.base_offset DESC LIMIT 1
  ) AS newest
  WHERE queue.tenant = $1::uuid
    AND ($2::text IS NULL OR queue.name = $2::text)
    AND ($4::text IS NULL OR queue.namespace = $4::text)
    AND ($5::text IS NULL OR queue.task = $5::text)
    AND newest.created_us >= $6::bigint
), chosen AS MATERIALIZED (
  -- With an end in the past the newest partition may have nothing before it: all of them are looked at.
  SELECT candidates.id FROM candidates
  ORDER BY candidates.created_us DESC LIMIT CASE WHEN $7::bigint IS NULL THEN $8::bigint END
)
SELECT piece.partition_id, piece.base_offset, piece.created_us, piece.bytes
FROM (
  SELECT recent.*, sum(recent.count) OVER (
    ORDER BY recent.created_us DESC, recent.partition_id DESC, recent.base_offset DESC
  ) - recent.count AS before
  FROM chosen
  CROSS JOIN LATERAL (
    SELECT segment.partition_id, segment.base_offset, segment.created_us, segment.count::bigint AS count,
           octet_length(segment.payload)::bigint AS bytes
    FROM queen.durable_segment AS segment
    WHERE segment.partition_id = chosen.id AND segment.base_offset <= coalesce((
      -- The first segment that ends at or behind the end of the range may begin before it.
      SELECT queen.durable_offset_at(chosen.id, $7::bigint) WHERE $7::bigint IS NOT NULL
    ), 9223372036854775807)
    ORDER BY segment.base_offset DESC LIMIT $8::bigint
  ) AS recent
  WHERE recent.created_us >= $6::bigint
) AS piece
WHERE piece.before < $8::bigint
ORDER BY piece.created_us DESC, piece.partition_id DESC, piece.base_offset DESC
