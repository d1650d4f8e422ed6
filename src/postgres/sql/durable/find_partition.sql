-- OFFSET 0: the queue by its key, whatever the table holds.
SELECT owner.tenant, owner.name
FROM queen.durable_partition AS stored
CROSS JOIN LATERAL (
  SELECT known.tenant, known.name FROM queen.durable_queue AS known
  WHERE known.id = stored.queue_id OFFSET 0
) AS owner
WHERE stored.id = $1
