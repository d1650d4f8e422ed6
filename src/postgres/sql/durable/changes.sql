-- What has changed since a number ($1); of what the asking broker has changed itself only the number.
SELECT number, tenant, queue, CASE WHEN broker <> queen.this_broker() THEN partition_ids END AS partition_ids
FROM queen.durable_change WHERE number > $1 ORDER BY number
