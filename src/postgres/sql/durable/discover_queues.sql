-- By task alone where only that is named; what is not named is NULL.
SELECT name FROM queen.durable_queue WHERE tenant = $1 AND namespace = $2 AND ($3::text IS NULL OR task = $3)
UNION ALL
SELECT name FROM queen.durable_queue WHERE tenant = $1 AND $2::text IS NULL AND task = $3
ORDER BY name
