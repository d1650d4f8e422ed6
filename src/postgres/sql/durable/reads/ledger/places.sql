-- Where groups stand: some groups everywhere ($1), and some in one partition each ($2, $3); at most $4. In
-- columns, as in `tails.sql`.
SELECT array_agg(place.group_id) AS group_ids, array_agg(place.partition_id) AS partition_ids,
       array_agg(place.committed) AS committed, array_agg(place.batch_end) AS batch_ends,
       array_agg(CASE WHEN place.lease_id IS NULL THEN 0 ELSE place.lease_until_us END) AS lease_untils,
       array_agg(place.retries > 0) AS failed
FROM (
  SELECT held.* FROM unnest($1::bigint[]) AS asked (group_id)
  CROSS JOIN LATERAL (
    SELECT stored.* FROM queen.durable_cursor AS stored WHERE stored.group_id = asked.group_id OFFSET 0
  ) AS held
  UNION ALL
  SELECT held.* FROM (
    SELECT unnest($2::bigint[]) AS group_id, unnest($3::bigint[]) AS partition_id
  ) AS asked
  CROSS JOIN LATERAL (
    SELECT stored.* FROM queen.durable_cursor AS stored
    WHERE stored.group_id = asked.group_id AND stored.partition_id = asked.partition_id OFFSET 0
  ) AS held
  LIMIT $4::bigint
) AS place
