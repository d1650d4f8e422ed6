-- It appends nothing, so it has no epoch.
SELECT CASE WHEN queen.commit_moves($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) THEN 0::bigint END AS epoch
