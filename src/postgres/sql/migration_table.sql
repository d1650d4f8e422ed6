-- What the migrations themselves need. A schema that is there is not created anew: that would need the
-- right to create schemas.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'queen') THEN
    CREATE SCHEMA queen;
    COMMENT ON SCHEMA queen IS 'What queen brokers keep.';
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS queen.migration (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE queen.migration IS 'The versions of this schema, written by the brokers that brought them.';
