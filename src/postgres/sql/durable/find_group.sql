SELECT id, name, mode, created_us FROM queen.durable_group
WHERE tenant = $1 AND queue = $2 AND name = $3
