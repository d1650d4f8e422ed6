-- The trigger says which revision it is.
INSERT INTO queen.ephemeral_queue (tenant, queue, options, revision)
SELECT tenant, queue, options, 0
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS asked (tenant, queue, options)
ON CONFLICT (tenant, queue) DO UPDATE SET options = excluded.options
