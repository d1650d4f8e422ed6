-- How a session that only reads plans. Each statement is planned for its values: what it looks through
-- differs by orders of magnitude, and planning is little beside it. A look by a key is written as such
-- (LATERAL, OFFSET 0), so a nested loop is left for nothing else; what is left are joins of whole results,
-- and those by a hash, whatever the planner believes of their sizes. No partition is looked at twice, so
-- nothing is worth remembering. A server that does not know one of these has no need of it.
SELECT count(set_config(wanted.name, wanted.value, false))
FROM (VALUES
  ('plan_cache_mode', 'force_custom_plan'),
  ('enable_nestloop', 'off'),
  ('enable_mergejoin', 'off'),
  ('enable_memoize', 'off'),
  ('work_mem', '64MB'),
  ('default_transaction_read_only', 'on'),
  ('statement_timeout', $1::text)
) AS wanted (name, value)
JOIN pg_settings AS known ON known.name = wanted.name
