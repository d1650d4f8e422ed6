-- Forgets what all brokers have read or will never read; a step at a time.
DELETE FROM queen.durable_change WHERE number IN (
  SELECT number FROM queen.durable_change
  WHERE (SELECT changed_at FROM queen.durable_change ORDER BY number LIMIT 1) < now() - interval '300 seconds'
    AND changed_at < now() - interval '200 seconds'
  ORDER BY number LIMIT 10000
)
