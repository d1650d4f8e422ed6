-- Their cursors are left to be swept.
WITH gone AS (
  DELETE FROM queen.durable_group WHERE tenant = $1 AND queue = $2 RETURNING id
)
INSERT INTO queen.durable_leftover (kind, id) SELECT 'group', id FROM gone
