-- Traces of a name ($2), newest first. Their messages come with them, $5 bytes of segments at most.
SELECT page.*, CASE WHEN sum(page.segment_bytes) OVER (
         ORDER BY page.id DESC ROWS UNBOUNDED PRECEDING
       ) <= $5 THEN holder.payload END AS payload, holder.base_offset
FROM (
  SELECT stored.id, stored.partition_id, stored.transaction_id, stored.message_offset,
         stored.group_name, stored.worker, stored.event, stored.data, stored.created_us,
         owner.name AS queue, (
           SELECT home.name FROM queen.durable_partition AS home WHERE home.id = stored.partition_id
         ) AS partition, ARRAY(
           SELECT one.name FROM queen.trace_name AS one
           WHERE one.queue_id = stored.queue_id AND one.trace_id = stored.id ORDER BY one.name
         ) AS names, (
           SELECT octet_length(segment.payload) FROM queen.durable_segment AS segment
           WHERE segment.partition_id = stored.partition_id
             AND segment.base_offset <= stored.message_offset
           ORDER BY segment.base_offset DESC LIMIT 1
         ) AS segment_bytes
  FROM queen.trace_name AS named
  JOIN queen.trace AS stored ON stored.id = named.trace_id
  JOIN queen.durable_queue AS owner ON owner.id = stored.queue_id
  WHERE named.tenant = $1 AND named.name = $2
  ORDER BY named.trace_id DESC LIMIT $3 OFFSET $4
) AS page
LEFT JOIN LATERAL (
  SELECT segment.base_offset, segment.payload FROM queen.durable_segment AS segment
  WHERE segment.partition_id = page.partition_id AND segment.base_offset <= page.message_offset
  ORDER BY segment.base_offset DESC LIMIT 1
) AS holder ON true
ORDER BY page.id DESC
