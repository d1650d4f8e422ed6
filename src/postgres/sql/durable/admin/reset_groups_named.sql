-- Groups of a name, of one queue ($3) or of all, go back to where they started. The rows stay and count
-- on: a version that has been there must not come again, or what was judged on the old place could be
-- stored on the new one. Where a group has no row it stands at the beginning, as at its start: the
-- partition was empty then or came later. = ANY (ARRAY[x]): by the key, whatever the table holds.
WITH moved AS (
  UPDATE queen.durable_cursor AS stored
  SET version = stored.version + 1,
      (committed, batch_end) = (
        SELECT start.place, start.place FROM (
          SELECT CASE known.mode WHEN 'all' THEN 0
            ELSE queen.durable_offset_at(stored.partition_id, coalesce(known.from_us, known.created_us))
          END AS place
        ) AS start
      ),
      lease_id = NULL, lease_until_us = 0, held_until_us = 0, retries = 0, attempts = 0,
      settled_us = 0, settled_count = 0
  FROM queen.durable_group AS known
  WHERE known.tenant = $1 AND known.name = $2 AND ($3::text IS NULL OR known.queue = $3)
    AND stored.group_id = ANY (ARRAY[known.id])
  RETURNING known.queue
)
SELECT queue, count(*) AS cursors FROM moved GROUP BY queue
