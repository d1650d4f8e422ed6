SELECT at_queue, at_partition, removed, is_over FROM queen.remove_idle($1, $2, $3, $4, $5)
