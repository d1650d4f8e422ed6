SELECT at_queue, at_partition, removed, is_over, partition_ids, first_offsets
FROM queen.retain($1, $2, $3, $4)
