-- The newest dead letter of an address.
SELECT letter.message_offset, letter.group_name, letter.error, letter.retries, letter.record
FROM queen.dead_letter AS letter
WHERE letter.partition_id = $1::bigint
  AND hashtextextended(letter.transaction_id, 0) = hashtextextended($2::text, 0)
  AND letter.transaction_id = $2::text
ORDER BY letter.id DESC LIMIT 1
