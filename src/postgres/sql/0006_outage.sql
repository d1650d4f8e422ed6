-- How far the spools of brokers are stored: pushes that were accepted while this server did not answer.
-- The row of a spool moves in the transaction that stores its entries, so that none is stored twice.

CREATE TABLE queen.durable_spool (
  identity uuid PRIMARY KEY,
  stored bigint NOT NULL DEFAULT 0,
  changed_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE queen.durable_spool IS 'How far each broker''s spool is stored. Not to be written by hand.';
COMMENT ON COLUMN queen.durable_spool.stored IS 'The number of its first entry that is not stored.';
