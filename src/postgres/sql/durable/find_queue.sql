SELECT id, namespace, task, options::text AS options, created_us
FROM queen.durable_queue WHERE tenant = $1 AND name = $2
