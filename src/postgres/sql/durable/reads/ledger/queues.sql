-- Queues of a tenant by name, each with its groups, and nothing that takes a look at a partition: as
-- `queues.sql` of the folder above begins.
SELECT page.id, page.name, page.namespace, page.task, page.options::text AS options, page.created_us,
       known.ids AS group_ids, known.names AS group_names,
       (SELECT count(*) FROM queen.dead_letter AS letter WHERE letter.queue_id = page.id) AS dead_letters
FROM (
  SELECT queue.* FROM queen.durable_queue AS queue
  WHERE queue.tenant = $1::uuid
    AND ($2::text IS NULL OR queue.name = $2::text)
    AND ($3::text IS NULL OR queue.namespace = $3::text)
    AND ($4::text IS NULL OR queue.task = $4::text)
    AND ($5::text IS NULL OR queue.name > $5::text)
  ORDER BY queue.name LIMIT $6::bigint OFFSET $7::bigint
) AS page
CROSS JOIN LATERAL (
  SELECT array_agg(stored.id) AS ids, array_agg(stored.name) AS names FROM queen.durable_group AS stored
  WHERE stored.tenant = $1::uuid AND stored.queue = page.name
) AS known
ORDER BY page.name
