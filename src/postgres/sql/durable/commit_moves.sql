-- It appends nothing: the number only says that it is stored, and no epoch is 0.
SELECT CASE WHEN queen.commit_moves(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13
) THEN 0::bigint END AS epoch
