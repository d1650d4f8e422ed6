-- What was given up of some partitions, newest first.
SELECT letter.partition_id, letter.message_offset, letter.group_name, letter.error, letter.retries
FROM unnest($1::bigint[]) AS asked (id)
CROSS JOIN LATERAL (
  SELECT stored.* FROM queen.dead_letter AS stored
  WHERE stored.partition_id = asked.id AND stored.message_offset >= $2::bigint
  ORDER BY stored.id DESC LIMIT $3::bigint
) AS letter
