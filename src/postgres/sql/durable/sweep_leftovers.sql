SELECT queen.sweep_leftovers($1) AS removed
