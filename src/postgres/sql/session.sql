-- What every session has, whatever the server, the database or the user has as its default.
SELECT set_config('client_min_messages', 'warning', false),
       set_config('search_path', 'pg_catalog', false),
       set_config('statement_timeout', $1, false),
       set_config('lock_timeout', $2, false),
       set_config('idle_in_transaction_session_timeout', $3, false),
       -- A session is there to stay; a server that does not know one of these has no such limit.
       (SELECT count(set_config(name, '0', false)) FROM pg_settings
        WHERE name IN ('idle_session_timeout', 'transaction_timeout')),
       -- Without its triggers a change has no revision and nobody follows it. Only where it has to be:
       -- it needs a right of its own.
       CASE current_setting('session_replication_role') WHEN 'origin' THEN NULL
       ELSE set_config('session_replication_role', 'origin', false) END,
       -- Who changes what, for other brokers (0005).
       set_config('queen.broker', $4, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('jit', 'off', false),
       -- Statements are prepared once, and planning them again and again takes longer than they do. A
       -- plan that was made while a table was empty must serve it when it is large: by its indexes.
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       -- Not weaker than the server's own disk; a stronger setting is kept.
       set_config(
         'synchronous_commit',
         CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
         false
       )
