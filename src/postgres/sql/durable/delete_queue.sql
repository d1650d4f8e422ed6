-- Its partitions, its dead letters and its traces are left to be swept.
WITH gone AS (
  DELETE FROM queen.durable_queue WHERE tenant = $1 AND name = $2 RETURNING id
), partitions AS (
  DELETE FROM queen.durable_partition WHERE queue_id = (SELECT id FROM gone) RETURNING id
)
INSERT INTO queen.durable_leftover (kind, id)
SELECT kind, id FROM gone CROSS JOIN unnest(ARRAY['queue', 'trace', 'trace_name']) AS kind
UNION ALL SELECT 'partition', id FROM partitions
