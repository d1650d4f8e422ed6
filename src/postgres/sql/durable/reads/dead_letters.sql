-- Dead letters of a tenant, newest first, with how many there are. A letter is as large as a message may
-- be: of a page only as many are read as there is room for, at least one.
WITH owners AS MATERIALIZED (
  SELECT queue.id, queue.name FROM queen.durable_queue AS queue
  WHERE queue.tenant = $1::uuid AND ($2::text IS NULL OR queue.name = $2::text)
), matching AS MATERIALIZED (
  SELECT letter.id, letter.partition_id, owners.name AS queue, part.name AS partition
  FROM owners
  JOIN queen.dead_letter AS letter ON letter.queue_id = owners.id
  LEFT JOIN LATERAL (
    SELECT stored.name FROM queen.durable_partition AS stored
    WHERE stored.id = letter.partition_id OFFSET 0
  ) AS part ON true
  WHERE ($3::text IS NULL OR letter.group_name = $3::text)
    AND ($4::text IS NULL OR part.name = $4::text)
    AND ($5::bigint IS NULL OR letter.failed_us >= $5::bigint)
    AND ($6::bigint IS NULL OR letter.failed_us < $6::bigint)
), page AS MATERIALIZED (
  SELECT matching.* FROM matching ORDER BY matching.id DESC LIMIT $7::bigint OFFSET $8::bigint
), sized AS (
  SELECT page.*, sum(letter.bytes) OVER (ORDER BY page.id DESC) - letter.bytes AS before
  FROM page
  CROSS JOIN LATERAL (
    SELECT octet_length(stored.record)::bigint + octet_length(stored.error) AS bytes
    FROM queen.dead_letter AS stored WHERE stored.id = page.id OFFSET 0
  ) AS letter
)
SELECT total.total, letter.*
FROM (SELECT count(*) AS total FROM matching) AS total
LEFT JOIN LATERAL (
  SELECT sized.id, sized.partition_id, sized.queue, coalesce(sized.partition, '') AS partition,
         stored.group_name, stored.error, stored.retries, stored.failed_us, stored.transaction_id,
         stored.message_offset, stored.record
  FROM sized
  CROSS JOIN LATERAL (
    SELECT held.* FROM queen.dead_letter AS held WHERE held.id = sized.id OFFSET 0
  ) AS stored
  WHERE sized.before < $9::bigint
  ORDER BY sized.id DESC
) AS letter ON true
ORDER BY letter.id DESC
