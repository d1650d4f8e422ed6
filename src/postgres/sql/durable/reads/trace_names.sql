-- The names of a tenant's traces, those first that were used last.
SELECT named.name, count(*) AS traces,
       count(DISTINCT (stored.partition_id, stored.transaction_id)) AS messages,
       max(stored.created_us) AS last_seen_us
FROM queen.trace_name AS named
JOIN queen.trace AS stored ON stored.id = named.trace_id
WHERE named.tenant = $1
  AND EXISTS (SELECT FROM queen.durable_queue AS owner WHERE owner.id = named.queue_id)
GROUP BY named.name
ORDER BY max(stored.created_us) DESC, named.name
LIMIT $2 OFFSET $3
