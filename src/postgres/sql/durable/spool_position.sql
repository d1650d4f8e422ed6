-- Up to where a spool is stored; a new one is noted.
WITH noted AS (
  INSERT INTO queen.durable_spool (identity) VALUES ($1) ON CONFLICT DO NOTHING RETURNING stored
)
SELECT stored FROM noted UNION ALL SELECT stored FROM queen.durable_spool WHERE identity = $1
