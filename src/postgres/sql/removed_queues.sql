SELECT tenant, queue FROM queen.ephemeral_queue_removed AS removed
WHERE revision > $1
  AND NOT EXISTS (
    SELECT FROM queen.ephemeral_queue AS declared
    WHERE declared.tenant = removed.tenant AND declared.queue = removed.queue
  )
