SELECT tenant, queue AS name FROM queen.durable_group WHERE id = $1
