-- The durable class: queues, their partitions, the messages packed in segments, the groups that take
-- them, and what was given up.
--
-- THE FENCE BETWEEN BROKERS. A broker judges requests in its memory, on an image of the rows, and
-- stores what comes of it by one call of a function (0011, 0012), which stores everything or nothing. It
-- must store nothing if the image was not the truth. Why that holds:
--
-- 1. Whatever changes the truth takes one advisory lock first and keeps it until its commit can be
--    seen: batches, registrations of groups, deletions of queues. So they happen one after another,
--    and a statement that begins once the lock is held sees all that came before, because at READ
--    COMMITTED every statement in a VOLATILE function has a snapshot of its own. The lock is let go
--    behind the commit, a wait for a synchronous standby included.
-- 2. A partition without gaps at its end has a version: its tail, the offset of the next message. Who
--    appends at the right tail has seen everything that was ever appended, its own set of transaction
--    ids included. Tails never go back: retention leaves the last segment of a partition in place, and
--    only leaves out what is older, so it needs no lock. Who appends again and again, and nobody
--    else meanwhile, need not look: the epochs of 0012.
-- 3. A cursor counts its changes. Who writes the next version has judged on the last one. Where there
--    was no row, the key refuses a second one.
-- 4. Ids are never used twice. A queue that is deleted and made anew has other ids, so what was judged
--    on the old one finds no partition and no group. Both are asked for, because their segments and
--    cursors are swept later, in steps.
-- 5. A name is taken once: a queue or partition that two brokers make at once is made by one of them.
--
-- The key of the segments and the keys of the names would refuse a second writer also without the
-- lock. The lock is there so that a batch is judged as a whole.
--
-- All times are microseconds since 1970 of this server's clock, as bigint: they are compared and added
-- to, and are never a date.

CREATE SEQUENCE queen.durable_id AS bigint INCREMENT BY 1024;

COMMENT ON SEQUENCE queen.durable_id IS
  'Ids of queues and partitions. A broker takes 1,024 at once and gives them out itself, so that what comes to be needs no question before.';

CREATE TABLE queen.durable_queue (
  id bigint PRIMARY KEY,
  tenant uuid NOT NULL,
  name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 512),
  namespace text COLLATE "C" NOT NULL,
  task text COLLATE "C" NOT NULL,
  options jsonb NOT NULL,
  created_us bigint NOT NULL,
  UNIQUE (tenant, name)
);

-- A discovery names a namespace, a task, or both.
CREATE INDEX durable_queue_namespace ON queen.durable_queue (tenant, namespace, task);
CREATE INDEX durable_queue_task ON queen.durable_queue (tenant, task);

COMMENT ON TABLE queen.durable_queue IS 'Queues of the durable class.';
COMMENT ON COLUMN queen.durable_queue.namespace IS 'Empty: none.';
COMMENT ON COLUMN queen.durable_queue.task IS 'Empty: none.';
COMMENT ON COLUMN queen.durable_queue.options IS
  'All options in force. One that is missing has its default, one that this broker does not know has no effect.';

CREATE TABLE queen.durable_partition (
  id bigint PRIMARY KEY,
  queue_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 512),
  created_us bigint NOT NULL,
  UNIQUE (queue_id, name)
);

COMMENT ON TABLE queen.durable_partition IS
  'Partitions. Where one ends is not written here but is the end of its last segment: an append changes no row, which saves a quarter of the cost of a small batch.';

-- One row for each partition and batch, never one for each message: the work for a row (executor,
-- index, WAL header) outweighs the bytes of a small message, and a pop of a hundred reads few rows.
--
-- toast_tuple_target is the largest there is: a row of up to 8,160 bytes stays whole, and only what
-- is larger goes to the TOAST table, uncompressed (EXTERNAL: the payload is read whole, and most of it
-- is JSON that compresses at the cost of the one core that the engine has). Inline rows are a tenth
-- faster to append than those with a TOAST row each. So one column serves one byte and 64 MiB.
--
-- fillfactor 80: rows of 7 KB leave a kilobyte at the end of their page. Small rows that were put into
-- such rests drew a full-page image each after every checkpoint: 168 MB of WAL instead of 39.
--
-- Dead rows come from retention only, at the old end of each partition, and the room is needed again
-- at once: vacuum at a fiftieth, not at a fifth of the table. Nothing is planned by statistics (see
-- 0011), and each ANALYZE throws away the plans of all brokers: seldom.
CREATE TABLE queen.durable_segment (
  partition_id bigint NOT NULL,
  base_offset bigint NOT NULL CHECK (base_offset >= 0),
  created_us bigint NOT NULL,
  count integer NOT NULL CHECK (count > 0),
  hashes bytea NOT NULL,
  payload bytea NOT NULL,
  PRIMARY KEY (partition_id, base_offset)
) WITH (
  fillfactor = 80,
  toast_tuple_target = 8160,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.5,
  autovacuum_analyze_threshold = 100000,
  toast.autovacuum_vacuum_scale_factor = 0.02,
  toast.autovacuum_vacuum_threshold = 10000
);

ALTER TABLE queen.durable_segment
  ALTER COLUMN hashes SET STORAGE EXTERNAL,
  ALTER COLUMN payload SET STORAGE EXTERNAL;

COMMENT ON TABLE queen.durable_segment IS
  'Messages, packed: one row for each partition and batch. Has no index but its key: each further one would cost every push. Rows are written once and removed from the old end, never the last one of a partition, which says where the partition ends.';
COMMENT ON COLUMN queen.durable_segment.base_offset IS 'The offset of the first message.';
COMMENT ON COLUMN queen.durable_segment.created_us IS
  'When the last message was accepted. Never less than in the segment before, so that a time is found by bisection.';
COMMENT ON COLUMN queen.durable_segment.hashes IS
  'Eight bytes for each transaction id, in a column of their own so that the window of a partition is read without its messages.';
COMMENT ON COLUMN queen.durable_segment.payload IS 'The messages as the broker packs them; layout in its source.';

CREATE TABLE queen.durable_group (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant uuid NOT NULL,
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 512),
  mode text COLLATE "C" NOT NULL CHECK (mode IN ('all', 'new', 'from')),
  from_us bigint CHECK ((from_us IS NULL) = (mode <> 'from')),
  created_us bigint NOT NULL,
  UNIQUE (tenant, queue, name)
);

COMMENT ON TABLE queen.durable_group IS 'Consumer groups, each of one queue.';
COMMENT ON COLUMN queen.durable_group.queue IS
  'The name and not the id: a pop of a queue that is not there yet is remembered, and misses nothing that is pushed later.';
COMMENT ON COLUMN queen.durable_group.mode IS 'Where it started in the partitions of its first pop: all, new, or from a time.';
COMMENT ON COLUMN queen.durable_group.from_us IS 'The time of the mode from.';

-- Half of each page stays free, so that a new version of a row has room beside the old one and no index
-- is touched (HOT); nothing but the key may be indexed for that. Pages are pruned whenever they are
-- read, so vacuum has little to do, and a table of a few rows need not be vacuumed at every look. As
-- for ANALYZE, see the segments.
CREATE TABLE queen.durable_cursor (
  group_id bigint NOT NULL,
  partition_id bigint NOT NULL,
  version bigint NOT NULL CHECK (version > 0),
  committed bigint NOT NULL,
  batch_end bigint NOT NULL,
  lease_until_us bigint NOT NULL,
  held_until_us bigint NOT NULL,
  settled_us bigint NOT NULL,
  settled_count bigint NOT NULL,
  retries integer NOT NULL,
  attempts integer NOT NULL,
  lease_id uuid,
  PRIMARY KEY (group_id, partition_id)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.5,
  autovacuum_analyze_threshold = 100000
);

COMMENT ON TABLE queen.durable_cursor IS
  'Where a group stands in a partition. No row: at offset 0, nothing leased. The key begins with the group, because a pop takes many partitions of one.';
COMMENT ON COLUMN queen.durable_cursor.version IS 'Counts the changes from 1; who changes a row names the version that it has seen.';
COMMENT ON COLUMN queen.durable_cursor.committed IS 'The first offset that is not settled.';
COMMENT ON COLUMN queen.durable_cursor.batch_end IS 'Behind the last offset of the lease, or of the last one.';
COMMENT ON COLUMN queen.durable_cursor.lease_id IS 'Who holds what lies between; NULL: nobody.';
COMMENT ON COLUMN queen.durable_cursor.held_until_us IS 'Nothing is delivered before; 0: no wait.';

CREATE TABLE queen.dead_letter (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_id bigint NOT NULL,
  partition_id bigint NOT NULL,
  group_name text COLLATE "C" NOT NULL,
  message_offset bigint NOT NULL,
  error text NOT NULL,
  retries integer NOT NULL,
  failed_us bigint NOT NULL,
  transaction_id text COLLATE "C" NOT NULL,
  record bytea NOT NULL
);

-- Listed by queue, newest first; addressed by partition and transaction id, of which the hash is
-- indexed: an id may be longer than an entry of an index.
CREATE INDEX dead_letter_queue ON queen.dead_letter (queue_id, id);
CREATE INDEX dead_letter_address ON queen.dead_letter (partition_id, hashtextextended(transaction_id, 0));

COMMENT ON TABLE queen.dead_letter IS 'Messages that were given up. Retention leaves them in place.';
COMMENT ON COLUMN queen.dead_letter.record IS 'The message, packed as a segment of one.';

CREATE TABLE queen.durable_leftover (
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('group', 'partition', 'queue', 'trace', 'trace_name')),
  id bigint NOT NULL,
  PRIMARY KEY (kind, id)
);

COMMENT ON TABLE queen.durable_leftover IS
  'What belonged to deleted queues and groups and is swept in steps: cursors of groups, segments of partitions, dead letters and traces of queues. Removing millions of rows at once would hold every broker up.';

-- The offset of the first message of a partition that was accepted at or after a time; the end of the
-- partition if there is none.
CREATE FUNCTION queen.durable_offset_at(wanted_partition bigint, since_us bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  probe record;
  position integer := 0;
  message_us bigint;
BEGIN
  SELECT base_offset, count, created_us INTO probe FROM queen.durable_segment
  WHERE partition_id = wanted_partition ORDER BY base_offset DESC LIMIT 1;
  IF NOT FOUND THEN
    RETURN 0;
  ELSIF probe.created_us < since_us THEN
    RETURN probe.base_offset + probe.count;
  END IF;
  high := probe.base_offset;
  SELECT base_offset INTO STRICT low FROM queen.durable_segment
  WHERE partition_id = wanted_partition ORDER BY base_offset LIMIT 1;
  -- The segment at `high` ends at or after the time; all that end before `low` end before it.
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT base_offset, count, created_us INTO STRICT probe FROM queen.durable_segment
    WHERE partition_id = wanted_partition AND base_offset <= middle ORDER BY base_offset DESC LIMIT 1;
    IF probe.created_us >= since_us THEN
      high := probe.base_offset;
    ELSE
      low := greatest(probe.base_offset + probe.count, middle + 1);
    END IF;
  END LOOP;
  SELECT base_offset, count, payload INTO STRICT probe FROM queen.durable_segment
  WHERE partition_id = wanted_partition AND base_offset = high;
  -- A message begins with four bytes of its length without them, a byte of flags, and eight bytes of its
  -- time, all little-endian.
  FOR place IN 0 .. probe.count - 2 LOOP
    EXIT WHEN position + 13 > octet_length(probe.payload);
    message_us := 0;
    FOR digit IN REVERSE 12 .. 5 LOOP
      message_us := message_us << 8 | get_byte(probe.payload, position + digit);
    END LOOP;
    IF message_us >= since_us THEN
      RETURN high + place;
    END IF;
    position := position + 4 + get_byte(probe.payload, position) + (get_byte(probe.payload, position + 1) << 8)
      + (get_byte(probe.payload, position + 2) << 16) + (get_byte(probe.payload, position + 3) << 24);
  END LOOP;
  -- The segment's time is the last one's.
  RETURN high + probe.count - 1;
END $$;

COMMENT ON FUNCTION queen.durable_offset_at IS
  'The offset of the first message of a partition accepted at or after a time.';
