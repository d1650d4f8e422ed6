SELECT queen.commit_appends($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS epoch
