-- This broker lives; who was not seen for long is forgotten; the others that live.
WITH mine AS (
  INSERT INTO queen.broker (incarnation, name, seen_at) VALUES ($1, $2, now())
  ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, seen_at = excluded.seen_at
), forgotten AS (
  DELETE FROM queen.broker WHERE incarnation IN (
    SELECT incarnation FROM queen.broker
    WHERE seen_at < now() - $4 * interval '1 second' AND incarnation <> $1
    -- Another broker forgets them at the same time.
    FOR UPDATE SKIP LOCKED
  )
)
SELECT name FROM queen.broker
WHERE incarnation <> $1 AND seen_at > now() - $3 * interval '1 second'
ORDER BY name
