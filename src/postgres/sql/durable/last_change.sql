SELECT coalesce(max(number), 0) AS number FROM queen.durable_change
