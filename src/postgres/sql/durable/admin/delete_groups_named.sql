-- Groups of a name, of one queue ($3) or of all; with them goes where they stand. Their cursors are left
-- to be swept; they are counted by the key.
WITH gone AS (
  DELETE FROM queen.durable_group
  WHERE tenant = $1 AND name = $2 AND ($3::text IS NULL OR queue = $3)
  RETURNING id, queue
), kept AS (
  INSERT INTO queen.durable_leftover (kind, id) SELECT 'group', id FROM gone
)
SELECT queue, (
  SELECT count(*) FROM queen.durable_cursor AS stored WHERE stored.group_id = gone.id
) AS cursors
FROM gone
