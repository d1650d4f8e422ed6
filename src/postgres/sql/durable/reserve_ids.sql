SELECT nextval('queen.durable_id') AS first
