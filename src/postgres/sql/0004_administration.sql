-- What operators look up and change: dead letters that are meant by a filter, and traces.

-- Ids of the oldest dead letters of a tenant for which everything holds that is not NULL; at most so many.
-- Of a queue by the index of queues, of all queues by the key.
CREATE FUNCTION queen.letters_meant(
  wanted_tenant uuid, wanted_queue text, wanted_group text, wanted_partition text,
  from_us bigint, to_us bigint, rows_max integer
) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  wanted_queue_id bigint;
BEGIN
  IF wanted_queue IS NULL THEN
    RETURN QUERY
    SELECT letter.id FROM queen.dead_letter AS letter
    WHERE EXISTS (
      SELECT FROM queen.durable_queue AS owner
      WHERE owner.id = letter.queue_id AND owner.tenant = wanted_tenant OFFSET 0
    ) AND (wanted_group IS NULL OR letter.group_name = wanted_group)
    AND (from_us IS NULL OR letter.failed_us >= from_us)
    AND (to_us IS NULL OR letter.failed_us <= to_us)
    AND (wanted_partition IS NULL OR EXISTS (
      SELECT FROM queen.durable_partition AS home
      WHERE home.id = letter.partition_id AND home.name = wanted_partition OFFSET 0
    ))
    ORDER BY letter.id LIMIT rows_max;
    RETURN;
  END IF;
  SELECT id INTO wanted_queue_id FROM queen.durable_queue
  WHERE tenant = wanted_tenant AND name = wanted_queue;
  RETURN QUERY
  SELECT letter.id FROM queen.dead_letter AS letter
  WHERE letter.queue_id = wanted_queue_id
  AND (wanted_group IS NULL OR letter.group_name = wanted_group)
  AND (from_us IS NULL OR letter.failed_us >= from_us)
  AND (to_us IS NULL OR letter.failed_us <= to_us)
  AND (wanted_partition IS NULL OR EXISTS (
    SELECT FROM queen.durable_partition AS home
    WHERE home.id = letter.partition_id AND home.name = wanted_partition OFFSET 0
  ))
  ORDER BY letter.queue_id, letter.id LIMIT rows_max;
END $$;

COMMENT ON FUNCTION queen.letters_meant IS
  'Ids of the oldest dead letters of a tenant for which everything holds that is not NULL.';

-- A trace belongs to a message, which is named by its partition and the client's id: who notes it knows
-- no more. Its offset is noted where it was found at once, so that the payload can be shown without a
-- search. The hash of the client's id is indexed: an id may be longer than an entry of an index.
CREATE TABLE queen.trace (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_id bigint NOT NULL,
  partition_id bigint NOT NULL,
  transaction_id text COLLATE "C" NOT NULL,
  message_offset bigint,
  group_name text COLLATE "C" NOT NULL,
  worker text,
  event text NOT NULL,
  data text NOT NULL,
  created_us bigint NOT NULL
);

CREATE INDEX trace_message ON queen.trace (partition_id, hashtextextended(transaction_id, 0));
CREATE INDEX trace_queue ON queen.trace (queue_id, id);

COMMENT ON TABLE queen.trace IS 'What clients have noted of messages. Goes with its queue.';
COMMENT ON COLUMN queen.trace.data IS
  'JSON as it was sent; as text, because jsonb refuses what JSON allows and forgets the order of keys.';
COMMENT ON COLUMN queen.trace.message_offset IS 'NULL: the message was not found when the trace was noted.';

CREATE TABLE queen.trace_name (
  queue_id bigint NOT NULL,
  tenant uuid NOT NULL,
  name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 512),
  trace_id bigint NOT NULL,
  PRIMARY KEY (tenant, name, trace_id)
);

-- The names of a trace, and those that go with their queue.
CREATE INDEX trace_name_trace ON queen.trace_name (queue_id, trace_id);

COMMENT ON TABLE queen.trace_name IS 'Names under which traces are found.';
