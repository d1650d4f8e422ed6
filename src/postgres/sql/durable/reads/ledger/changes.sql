-- What has changed since a number ($1), and what has come late of the numbers before it ($2). What this
-- broker has changed it knows by itself.
SELECT news.number, CASE WHEN news.is_news THEN news.tenant END AS tenant,
       CASE WHEN news.is_news THEN news.queue END AS queue,
       CASE WHEN news.is_news THEN news.partition_ids END AS partition_ids
FROM (
  SELECT change.*, change.broker <> queen.this_broker() AS is_news
  FROM queen.durable_change AS change WHERE change.number > $1::bigint
  UNION ALL
  SELECT late.*, late.broker <> queen.this_broker() FROM unnest($2::bigint[]) AS missed (number)
  CROSS JOIN LATERAL (
    SELECT change.* FROM queen.durable_change AS change WHERE change.number = missed.number OFFSET 0
  ) AS late
) AS news
