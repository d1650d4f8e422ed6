-- The brokers that use this database, so that they know of each other.

CREATE TABLE queen.broker (
  incarnation text COLLATE "C" PRIMARY KEY,
  name text NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE queen.broker IS 'The brokers that use this database. Each writes its own row.';
COMMENT ON COLUMN queen.broker.incarnation IS 'Different at each start of a broker.';
COMMENT ON COLUMN queen.broker.name IS 'Host and port that it serves.';
COMMENT ON COLUMN queen.broker.seen_at IS 'When it said last that it lives.';
