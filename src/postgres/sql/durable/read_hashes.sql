-- Newest first, a step at a time: who has come to a segment that is too old needs no more.
SELECT partition_id, base_offset, created_us, hashes FROM queen.durable_segment
WHERE partition_id = $1 AND base_offset < $2
ORDER BY base_offset DESC LIMIT $3
