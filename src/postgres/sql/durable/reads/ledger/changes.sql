-- What has changed since a number ($1), and what has come late of the numbers before it ($2). What this
-- broker has changed it knows by itself.
SELECT news.number, news.tenant, news.queue,
       CASE WHEN news.broker <> queen.this_broker() THEN news.partition_ids END AS partition_ids
FROM (
  SELECT change.* FROM queen.durable_change AS change WHERE change.number > $1::bigint
  UNION ALL
  SELECT late.* FROM unnest($2::bigint[]) AS missed (number)
  CROSS JOIN LATERAL (
    SELECT change.* FROM queen.durable_change AS change WHERE change.number = missed.number OFFSET 0
  ) AS late
) AS news
