DELETE FROM queen.ephemeral_queue AS stored
USING unnest($1::uuid[], $2::text[]) AS asked (tenant, queue)
WHERE stored.tenant = asked.tenant AND stored.queue = asked.queue
