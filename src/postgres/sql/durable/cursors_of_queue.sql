-- OFFSET 0 keeps a look-up by the key from becoming a join with the whole table.
SELECT place.*
FROM queen.durable_group AS known
CROSS JOIN LATERAL (
  SELECT stored.* FROM queen.durable_cursor AS stored WHERE stored.group_id = known.id OFFSET 0
) AS place
WHERE known.tenant = $1 AND known.queue = $2
