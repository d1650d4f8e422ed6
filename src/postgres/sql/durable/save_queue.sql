-- Whether messages may be encrypted is the database's own: who saves options may not have heard yet that
-- another broker has set encryption, and that one's messages stay.
UPDATE queen.durable_queue
SET namespace = $2, task = $3, options = $4::text::jsonb || CASE
  WHEN (options->>'encryption')::boolean OR (options->>'was_encrypted')::boolean
  THEN '{"was_encrypted": true}' ELSE '{}' END::jsonb
WHERE id = $1
