-- The newest dead letter of a message, if it is the tenant's.
SELECT letter.id, letter.partition_id, letter.message_offset, letter.group_name, letter.record, owner.name AS queue, (
  SELECT home.name FROM queen.durable_partition AS home WHERE home.id = letter.partition_id
) AS partition
FROM queen.dead_letter AS letter
JOIN queen.durable_queue AS owner ON owner.id = letter.queue_id AND owner.tenant = $1
WHERE letter.partition_id = $2 AND letter.transaction_id = $3
  AND hashtextextended(letter.transaction_id, 0) = hashtextextended($3, 0)
ORDER BY letter.id DESC LIMIT 1
