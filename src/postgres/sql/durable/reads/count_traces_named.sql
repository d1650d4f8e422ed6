SELECT count(*) AS total FROM queen.trace_name AS named
WHERE named.tenant = $1 AND named.name = $2
  AND EXISTS (SELECT FROM queen.durable_queue AS owner WHERE owner.id = named.queue_id)
