SELECT * FROM queen.durable_cursor WHERE group_id = $1
