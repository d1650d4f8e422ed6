-- Nothing where the partition is not the tenant's. The time is this server's.
WITH home AS (
  SELECT stored.id, stored.queue_id FROM queen.durable_partition AS stored
  JOIN queen.durable_queue AS owner ON owner.id = stored.queue_id AND owner.tenant = $1
  WHERE stored.id = $2
), made AS (
  INSERT INTO queen.trace (
    queue_id, partition_id, transaction_id, message_offset, group_name, worker, event, data, created_us
  )
  SELECT home.queue_id, home.id, $3, $4, $5, $6, $7, $8,
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM home
  RETURNING id, queue_id
), named AS (
  INSERT INTO queen.trace_name (queue_id, tenant, name, trace_id)
  SELECT made.queue_id, $1, one, made.id FROM made CROSS JOIN unnest($9::text[]) AS one
)
SELECT id FROM made
