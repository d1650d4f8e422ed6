-- The key begins with the group, so the groups of each partition's queue come first. OFFSET 0 keeps each
-- look-up by a key from becoming a join with the whole table.
SELECT place.*
FROM queen.durable_partition AS asked
CROSS JOIN LATERAL (
  SELECT stored.tenant, stored.name FROM queen.durable_queue AS stored
  WHERE stored.id = asked.queue_id OFFSET 0
) AS owner
CROSS JOIN LATERAL (
  SELECT stored.id FROM queen.durable_group AS stored
  WHERE stored.tenant = owner.tenant AND stored.queue = owner.name OFFSET 0
) AS known
CROSS JOIN LATERAL (
  SELECT stored.* FROM queen.durable_cursor AS stored
  WHERE stored.group_id = known.id AND stored.partition_id = asked.id OFFSET 0
) AS place
WHERE asked.id = ANY ($1::bigint[])
