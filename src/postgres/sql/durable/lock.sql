-- The lock of everything that a batch may have been judged on; see the fence in 0003_durable.sql.
SELECT FROM pg_advisory_xact_lock($1)
