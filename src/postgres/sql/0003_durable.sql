-- The durable class: queues, their partitions, the messages packed in segments, the groups that take
-- them, and what was given up.
--
-- THE FENCE BETWEEN BROKERS. A broker judges requests in its memory, on an image of the rows, and
-- stores what comes of it by one call of queen.commit_batch, which stores everything or nothing. It
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
--    only leaves out what is older, so it needs no lock.
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
-- commit_batch), and each ANALYZE throws away the plans of all brokers: seldom.
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

-- Removes at most so many rows of what was deleted; answers how many there were. Fewer than asked for:
-- nothing is left that no other broker is at.
CREATE FUNCTION queen.sweep_leftovers(rows_max integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  leftover record;
  removed integer;
  total integer := 0;
BEGIN
  WHILE total < rows_max LOOP
    SELECT kind, id INTO leftover FROM queen.durable_leftover
    ORDER BY kind, id LIMIT 1 FOR UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND;
    CASE leftover.kind
    WHEN 'group' THEN
      DELETE FROM queen.durable_cursor WHERE group_id = leftover.id AND partition_id <= (
        SELECT max(step.partition_id) FROM (
          SELECT partition_id FROM queen.durable_cursor WHERE group_id = leftover.id
          ORDER BY partition_id LIMIT rows_max - total
        ) AS step
      );
    WHEN 'partition' THEN
      DELETE FROM queen.durable_segment WHERE partition_id = leftover.id AND base_offset <= (
        SELECT max(step.base_offset) FROM (
          SELECT base_offset FROM queen.durable_segment WHERE partition_id = leftover.id
          ORDER BY base_offset LIMIT rows_max - total
        ) AS step
      );
    WHEN 'queue' THEN
      DELETE FROM queen.dead_letter WHERE queue_id = leftover.id AND id <= (
        SELECT max(step.id) FROM (
          SELECT id FROM queen.dead_letter WHERE queue_id = leftover.id
          ORDER BY id LIMIT rows_max - total
        ) AS step
      );
    WHEN 'trace' THEN
      DELETE FROM queen.trace WHERE queue_id = leftover.id AND id <= (
        SELECT max(step.id) FROM (
          SELECT id FROM queen.trace WHERE queue_id = leftover.id
          ORDER BY id LIMIT rows_max - total
        ) AS step
      );
    WHEN 'trace_name' THEN
      DELETE FROM queen.trace_name WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM queen.trace_name WHERE queue_id = leftover.id
        ORDER BY queue_id, trace_id LIMIT rows_max - total
      ));
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    total := total + removed;
    IF total < rows_max THEN
      -- There were no more of them. Its own row counts too.
      DELETE FROM queen.durable_leftover WHERE kind = leftover.kind AND id = leftover.id;
      total := total + 1;
    END IF;
  END LOOP;
  RETURN total;
END $$;

COMMENT ON FUNCTION queen.sweep_leftovers IS 'Removes a bounded number of rows of deleted queues and groups.';

-- Stores a batch, or nothing of it: false, or the error QN001 where something was written already, if it
-- was judged on what is not so any more.
--
-- HOW IT IS PLANNED. Every session of a broker has plan_cache_mode = force_generic_plan and
-- enable_seqscan = off: planning afresh takes longer than the work. But a plan made while a table was
-- empty stays in force until the next ANALYZE, while the table may grow by millions of rows in a minute.
-- So the statements are written in such a way that there is one plan, whatever the table holds:
-- - arrays come apart in the select list of a subquery, side by side. As a function in FROM they would be
--   copied, the messages too, into a store that goes to disk above work_mem;
-- - who looks up a row does so behind OFFSET 0, which the planner must not turn into a join, so that
--   only the index on the key is left;
-- - `key = ANY (ARRAY[x])` is `key = x`, but nothing that rows could be sorted or hashed for, so that an
--   update cannot become a merge or hash join with a scan of the whole index.
CREATE FUNCTION queen.commit_batch(
  queue_ids bigint[], queue_tenant uuid[], queue_name text[], queue_namespace text[],
  queue_task text[], queue_options text[], queue_created bigint[],
  partition_ids bigint[], partition_queue bigint[], partition_name text[], partition_created bigint[],
  tail_partition bigint[], tail_next bigint[],
  segment_partition bigint[], segment_base bigint[], segment_created bigint[], segment_count integer[],
  segment_hashes bytea[], segment_payload bytea[],
  cursor_groups bigint[],
  cursor_group bigint[], cursor_partition bigint[], cursor_version bigint[], cursor_committed bigint[],
  cursor_batch_end bigint[], cursor_lease_until bigint[], cursor_held_until bigint[],
  cursor_settled bigint[], cursor_settled_count bigint[], cursor_retries integer[],
  cursor_attempts integer[], cursor_lease uuid[],
  letter_queue bigint[], letter_partition bigint[], letter_group text[], letter_offset bigint[],
  letter_error text[], letter_retries integer[], letter_failed bigint[], letter_transaction text[],
  letter_record bytea[],
  replayed_letters bigint[],
  spool_identity uuid[], spool_from bigint[], spool_to bigint[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  found_rows bigint;
  written bigint;
  others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  -- As queen.has_followers (0005) does, of which the call takes longer than the question.
  others := EXISTS (
    SELECT FROM queen.broker
    WHERE incarnation <> queen.this_broker() AND seen_at > now() - interval '60 seconds'
  );
  -- What is judged on, before anything is written: most of what is stale ends here, without an error.
  IF cardinality(tail_partition) > 0 THEN
    SELECT count(*) INTO found_rows
    FROM (SELECT unnest(tail_partition) AS id, unnest(tail_next) AS next_offset) AS judged
    WHERE EXISTS (
      SELECT FROM queen.durable_partition AS stored WHERE stored.id = judged.id OFFSET 0
    ) AND judged.next_offset = coalesce((
      SELECT stored.base_offset + stored.count FROM queen.durable_segment AS stored
      WHERE stored.partition_id = judged.id ORDER BY stored.base_offset DESC LIMIT 1
    ), 0);
    IF found_rows <> cardinality(tail_partition) THEN
      RETURN false;
    END IF;
  END IF;
  IF cardinality(cursor_groups) > 0 THEN
    SELECT count(*) INTO found_rows FROM (SELECT unnest(cursor_groups) AS id) AS judged
    WHERE EXISTS (
      SELECT FROM queen.durable_group AS stored WHERE stored.id = judged.id OFFSET 0
    );
    IF found_rows <> cardinality(cursor_groups) THEN
      RETURN false;
    END IF;
  END IF;
  -- Where brokers share queues it is common that one has taken what another one would take. The update
  -- below finds that, too, but with an error in the server's log. Who is alone need not look twice.
  IF others AND cardinality(cursor_group) > 0 THEN
    SELECT count(*) INTO found_rows
    FROM (
      SELECT unnest(cursor_group) AS group_id, unnest(cursor_partition) AS partition_id,
             unnest(cursor_version) AS version
    ) AS judged
    WHERE judged.version = coalesce((
      SELECT stored.version FROM queen.durable_cursor AS stored
      WHERE stored.group_id = judged.group_id AND stored.partition_id = judged.partition_id
    ), 0);
    IF found_rows <> cardinality(cursor_group) THEN
      RETURN false;
    END IF;
  END IF;

  IF cardinality(queue_ids) > 0 THEN
    INSERT INTO queen.durable_queue (id, tenant, name, namespace, task, options, created_us)
    SELECT unnest(queue_ids), unnest(queue_tenant), unnest(queue_name), unnest(queue_namespace),
           unnest(queue_task), unnest(queue_options)::jsonb, unnest(queue_created)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(queue_ids) THEN
      RAISE EXCEPTION 'stale: a queue of that name was made by another broker' USING ERRCODE = 'QN001';
    END IF;
  END IF;
  IF cardinality(partition_ids) > 0 THEN
    INSERT INTO queen.durable_partition (id, queue_id, name, created_us)
    SELECT made.id, made.queue_id, made.name, made.created_us
    FROM (
      SELECT unnest(partition_ids) AS id, unnest(partition_queue) AS queue_id,
             unnest(partition_name) AS name, unnest(partition_created) AS created_us
    ) AS made
    WHERE EXISTS (
      SELECT FROM queen.durable_queue AS stored WHERE stored.id = made.queue_id OFFSET 0
    )
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(partition_ids) THEN
      RAISE EXCEPTION 'stale: a partition was made by another broker, or its queue was deleted'
        USING ERRCODE = 'QN001';
    END IF;
  END IF;

  IF cardinality(segment_partition) > 0 THEN
    INSERT INTO queen.durable_segment (partition_id, base_offset, created_us, count, hashes, payload)
    SELECT unnest(segment_partition), unnest(segment_base), unnest(segment_created),
           unnest(segment_count), unnest(segment_hashes), unnest(segment_payload);
  END IF;

  IF cardinality(cursor_group) > 0 THEN
    found_rows := 0;
    -- The first pop of a wide queue finds no row at all: nothing need be looked for.
    IF 0 < ANY (cursor_version) THEN
      UPDATE queen.durable_cursor AS stored
      SET version = judged.version + 1, committed = judged.committed, batch_end = judged.batch_end,
          lease_until_us = judged.lease_until_us, held_until_us = judged.held_until_us,
          settled_us = judged.settled_us, settled_count = judged.settled_count,
          retries = judged.retries, attempts = judged.attempts, lease_id = judged.lease_id
      FROM (
        SELECT unnest(cursor_group) AS group_id, unnest(cursor_partition) AS partition_id,
               unnest(cursor_version) AS version, unnest(cursor_committed) AS committed,
               unnest(cursor_batch_end) AS batch_end, unnest(cursor_lease_until) AS lease_until_us,
               unnest(cursor_held_until) AS held_until_us, unnest(cursor_settled) AS settled_us,
               unnest(cursor_settled_count) AS settled_count, unnest(cursor_retries) AS retries,
               unnest(cursor_attempts) AS attempts, unnest(cursor_lease) AS lease_id
      ) AS judged
      WHERE stored.group_id = ANY (ARRAY[judged.group_id])
        AND stored.partition_id = ANY (ARRAY[judged.partition_id])
        AND stored.version = ANY (ARRAY[judged.version]);
      GET DIAGNOSTICS found_rows = ROW_COUNT;
    END IF;
    IF found_rows <> cardinality(cursor_group) THEN
      INSERT INTO queen.durable_cursor (
        group_id, partition_id, version, committed, batch_end, lease_until_us, held_until_us,
        settled_us, settled_count, retries, attempts, lease_id
      )
      SELECT judged.group_id, judged.partition_id, 1, judged.committed, judged.batch_end,
             judged.lease_until_us, judged.held_until_us, judged.settled_us, judged.settled_count,
             judged.retries, judged.attempts, judged.lease_id
      FROM (
        SELECT unnest(cursor_group) AS group_id, unnest(cursor_partition) AS partition_id,
               unnest(cursor_version) AS version, unnest(cursor_committed) AS committed,
               unnest(cursor_batch_end) AS batch_end, unnest(cursor_lease_until) AS lease_until_us,
               unnest(cursor_held_until) AS held_until_us, unnest(cursor_settled) AS settled_us,
               unnest(cursor_settled_count) AS settled_count, unnest(cursor_retries) AS retries,
               unnest(cursor_attempts) AS attempts, unnest(cursor_lease) AS lease_id
      ) AS judged
      WHERE judged.version = 0 AND EXISTS (
        SELECT FROM queen.durable_partition AS stored WHERE stored.id = judged.partition_id OFFSET 0
      )
      ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS written = ROW_COUNT;
      IF found_rows + written <> cardinality(cursor_group) THEN
        RAISE EXCEPTION 'stale: a cursor was moved by another broker' USING ERRCODE = 'QN001';
      END IF;
    END IF;
  END IF;

  IF cardinality(letter_queue) > 0 THEN
    INSERT INTO queen.dead_letter (
      queue_id, partition_id, group_name, message_offset, error, retries, failed_us, transaction_id, record
    )
    SELECT unnest(letter_queue), unnest(letter_partition), unnest(letter_group), unnest(letter_offset),
           unnest(letter_error), unnest(letter_retries), unnest(letter_failed),
           unnest(letter_transaction), unnest(letter_record);
  END IF;

  -- A dead letter goes when it is pushed once more; one that has gone must not be pushed again.
  IF cardinality(replayed_letters) > 0 THEN
    DELETE FROM queen.dead_letter WHERE id = ANY (replayed_letters);
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(replayed_letters) THEN
      RAISE EXCEPTION 'stale: a dead letter was taken by another broker' USING ERRCODE = 'QN001';
    END IF;
  END IF;
  -- What was spooled is stored once, also where the answer to the last try was lost.
  IF cardinality(spool_identity) > 0 THEN
    UPDATE queen.durable_spool SET stored = spool_to[1], changed_at = now()
    WHERE identity = spool_identity[1] AND stored = spool_from[1];
    IF NOT FOUND THEN
      RAISE EXCEPTION 'stale: the spool is stored up to somewhere else' USING ERRCODE = 'QN001';
    END IF;
  END IF;
  IF others THEN
    PERFORM queen.note_batch(partition_queue, tail_partition || cursor_partition);
  END IF;
  RETURN true;
END $$;

COMMENT ON FUNCTION queen.commit_batch IS
  'Stores what a broker has judged, all or nothing; false or QN001: it was judged on what is not so any more. Not to be called by hand.';
