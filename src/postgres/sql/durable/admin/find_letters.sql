-- The oldest dead letters that are meant, $7 at most and of $8 bytes together, the first in any case; each
-- with how many are meant in all, counted up to one more than asked for. Their length is known without
-- reading them.
SELECT letter.id, letter.partition_id, letter.message_offset, letter.group_name, letter.record, owner.name AS queue, (
  SELECT home.name FROM queen.durable_partition AS home WHERE home.id = letter.partition_id
) AS partition, sized.meant
FROM (
  SELECT stored.id, count(*) OVER () AS meant, row_number() OVER by_age AS place,
         sum(octet_length(stored.record)) OVER by_age AS bytes
  FROM queen.letters_meant($1, $2, $3, $4, $5, $6, $7 + 1) AS meant (id)
  CROSS JOIN LATERAL (
    SELECT one.id, one.record FROM queen.dead_letter AS one WHERE one.id = meant.id OFFSET 0
  ) AS stored
  WINDOW by_age AS (ORDER BY stored.id ROWS UNBOUNDED PRECEDING)
) AS sized
CROSS JOIN LATERAL (
  SELECT one.* FROM queen.dead_letter AS one WHERE one.id = sized.id OFFSET 0
) AS letter
JOIN queen.durable_queue AS owner ON owner.id = letter.queue_id
WHERE sized.place <= $7 AND (sized.bytes <= $8 OR sized.place = 1)
ORDER BY letter.id
