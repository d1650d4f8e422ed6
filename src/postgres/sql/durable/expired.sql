-- Whose they are is asked here, because what is judged is named by tenant and queue.
SELECT step.at_queue, step.at_partition, step.is_over, step.group_ids, step.partition_ids, step.offsets,
       ARRAY(
         SELECT owner.tenant FROM unnest(step.queue_ids) WITH ORDINALITY AS found (id, place)
         JOIN queen.durable_queue AS owner ON owner.id = found.id ORDER BY found.place
       ) AS tenants,
       ARRAY(
         SELECT owner.name FROM unnest(step.queue_ids) WITH ORDINALITY AS found (id, place)
         JOIN queen.durable_queue AS owner ON owner.id = found.id ORDER BY found.place
       ) AS queues
FROM queen.expired($1, $2, $3, $4, $5) AS step
