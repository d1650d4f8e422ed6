INSERT INTO queen.durable_group (tenant, queue, name, mode, from_us, created_us)
VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING id, name, mode, created_us
