-- Which of the queues are declared, and whether with the same options.
SELECT asked.place, stored.options = asked.options AS is_same
FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS asked (tenant, queue, options, place)
JOIN queen.ephemeral_queue AS stored
  ON stored.tenant = asked.tenant AND stored.queue = asked.queue
