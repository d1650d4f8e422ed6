-- All dead letters of a message, whichever groups gave it up.
DELETE FROM queen.dead_letter AS letter
USING queen.durable_queue AS owner
WHERE letter.partition_id = $2 AND letter.transaction_id = $3
  AND hashtextextended(letter.transaction_id, 0) = hashtextextended($3, 0)
  AND owner.id = letter.queue_id AND owner.tenant = $1
