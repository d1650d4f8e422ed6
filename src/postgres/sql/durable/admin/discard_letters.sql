-- The oldest dead letters that are meant, $7 at most; how many they were, and how many are meant in all,
-- counted up to one more than asked for.
WITH meant AS (
  SELECT id FROM queen.letters_meant($1, $2, $3, $4, $5, $6, $7 + 1) AS meant (id)
), gone AS (
  DELETE FROM queen.dead_letter AS letter
  WHERE letter.id = ANY (ARRAY(SELECT id FROM meant ORDER BY id LIMIT $7))
  RETURNING letter.id
)
SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM meant) AS meant
