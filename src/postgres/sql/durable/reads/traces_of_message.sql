-- Traces of a message, in the order in which they were noted; at most $4, of which the newest.
SELECT page.* FROM (
  SELECT stored.id, stored.partition_id, stored.transaction_id, stored.message_offset,
         stored.group_name, stored.worker, stored.event, stored.data, stored.created_us,
         owner.name AS queue, (
           SELECT home.name FROM queen.durable_partition AS home WHERE home.id = stored.partition_id
         ) AS partition, ARRAY(
           SELECT one.name FROM queen.trace_name AS one
           WHERE one.queue_id = stored.queue_id AND one.trace_id = stored.id ORDER BY one.name
         ) AS names
  FROM queen.trace AS stored
  JOIN queen.durable_queue AS owner ON owner.id = stored.queue_id AND owner.tenant = $1
  WHERE stored.partition_id = $2 AND stored.transaction_id = $3
    AND hashtextextended(stored.transaction_id, 0) = hashtextextended($3, 0)
  ORDER BY stored.id DESC LIMIT $4
) AS page
ORDER BY page.id
