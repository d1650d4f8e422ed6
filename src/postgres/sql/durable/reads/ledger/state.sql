-- The database's time, when other brokers and this one said last that they live, and the newest number of
-- what brokers tell each other. Times are microseconds since 1970; 0: never.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
       coalesce((
         SELECT max((extract(epoch FROM seen_at) * 1000000)::bigint) FROM queen.broker
         WHERE incarnation <> queen.this_broker()
       ), 0) AS others_us,
       coalesce((
         SELECT (extract(epoch FROM seen_at) * 1000000)::bigint FROM queen.broker
         WHERE incarnation = queen.this_broker()
       ), 0) AS own_us,
       coalesce((SELECT max(number) FROM queen.durable_change), 0) AS last_change
