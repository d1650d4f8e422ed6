-- Stores a batch, or nothing of it: the fence of 0003. Judged on what is not so any more, it ends without
-- an epoch; where something was written already, with the error QN001, or with that of a key that is taken
-- where it is a cursor's. ON CONFLICT would spare the latter, but makes each new cursor half as dear again,
-- and where there are other brokers the versions are compared before.
--
-- Most batches only append, or only move groups. A batch of two acks has values for 13 of the 47 parameters
-- of queen.commit_batch, and each parameter costs, whether it is empty or not: it is bound, and PL/pgSQL
-- takes each array apart. So there is a function for each of the two (commit_appends, and commit_moves of
-- 0011), and all three have the same parts.
--
-- EPOCHS. To look where each partition ends took four tenths of a batch of 32 small pushes, and nearly always
-- in vain: one broker alone appends. So an epoch, which has a number, is a time in which one session appends.
-- Whoever stores a batch, other than one that only moves groups, and does it outside of its own epoch ends the one
-- that is open, and opens a new one where it is alone. Then a session whose epoch is still open knows: since
-- its last batch nobody else has appended anything or removed a partition. Where it has appended in this
-- epoch, the partition is there and ends where it left it. It sends such tails, too, for the case that the epoch
-- is over; the server looks only at the others. Why that holds:
--
-- 1. The row is read and changed under the lock of 0003 by every function that appends; a trigger changes it
--    at the commit of whatever removes a partition, which need not hold that lock if it is done by hand.
--    Until then the partition is there for others. An epoch is opened only if nothing has ended one
--    meanwhile. Retention and sweeps never move a tail.
-- 2. Only the session that opened an epoch is told its number, so nobody else goes on in it. No clock
--    decides, and it does not matter who is thought to live: a broker that was frozen for an hour, or cut off,
--    finds its epoch ended if anybody has appended meanwhile, and open if nobody has.
-- 3. What a session knows ends with its connection, and with any error: whether the batch is stored
--    is not known then. So where a server was replaced by its standby, and a number may come up again, only
--    sessions come that know nothing. A dump that is restored under brokers at work would break this, as it
--    brings the row back and breaks no connection: README says to stop them.
--
-- Where several brokers live nobody opens an epoch: each would end that of the other with every batch, and the
-- versions of the row would pile up as long as any transaction, such as a dump, may still see them.

CREATE TABLE queen.durable_epoch (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  number bigint NOT NULL,
  is_open boolean NOT NULL
);

INSERT INTO queen.durable_epoch (number, is_open) VALUES (1, false);

COMMENT ON TABLE queen.durable_epoch IS
  'One row: the newest epoch, a time in which one session appends. Changed by the functions that store batches, and by a trigger. Not to be written by hand.';
COMMENT ON COLUMN queen.durable_epoch.number IS 'Counts what has opened or ended one.';

CREATE FUNCTION queen.end_epoch() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  -- Once for a transaction, however many partitions it removes.
  IF current_setting('queen.has_ended_epoch', true) IS DISTINCT FROM 'yes' THEN
    UPDATE queen.durable_epoch SET number = number + 1, is_open = false WHERE is_only;
    PERFORM set_config('queen.has_ended_epoch', 'yes', true);
  END IF;
  RETURN NULL;
END $$;

-- At the commit, together with what it is about: else a transaction that somebody leaves open would keep
-- the row from every batch that has to open or end an epoch. TRUNCATE keeps everybody from the table until its
-- commit anyhow, and its triggers cannot be deferred.
CREATE CONSTRAINT TRIGGER end_epoch AFTER DELETE ON queen.durable_partition DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION queen.end_epoch();
CREATE TRIGGER end_epoch_of_all AFTER TRUNCATE ON queen.durable_partition
FOR EACH STATEMENT EXECUTE FUNCTION queen.end_epoch();

-- Also where rows come and go as those of another server.
ALTER TABLE queen.durable_partition
  ENABLE ALWAYS TRIGGER end_epoch, ENABLE ALWAYS TRIGGER end_epoch_of_all;

-- The epoch in which a batch may append: known_epoch if it is open, else a new one; 0 where there are others, who
-- would end it at once. NULL where a partition has gone or ends elsewhere. In known_epoch only the first
-- tails_unknown tails are looked at.
CREATE FUNCTION queen.epoch_for_tails(
  tail_partition bigint[], tail_next bigint[], tails_unknown integer, known_epoch bigint, others boolean
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest record;
  goes_on boolean;
BEGIN
  -- By the key: a session of a broker does not scan tables.
  SELECT number, is_open INTO newest FROM queen.durable_epoch WHERE is_only;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queen.durable_epoch has lost its row';
  END IF;
  goes_on := newest.is_open AND newest.number = known_epoch;
  IF goes_on THEN
    IF tails_unknown = 0 THEN
      RETURN known_epoch;
    END IF;
    tail_partition := tail_partition[:tails_unknown];
    tail_next := tail_next[:tails_unknown];
  END IF;
  IF EXISTS (
    SELECT FROM (SELECT unnest(tail_partition) AS id, unnest(tail_next) AS next_offset) AS judged
    WHERE NOT EXISTS (
      SELECT FROM queen.durable_partition AS stored WHERE stored.id = judged.id OFFSET 0
    ) OR judged.next_offset IS DISTINCT FROM coalesce((
      -- A step backward in an index reads all that fits of its page, hundreds of small segments. Where a
      -- partition ends with a segment of one message, that is found without the others.
      SELECT stored.base_offset + stored.count FROM queen.durable_segment AS stored
      WHERE stored.partition_id = judged.id AND stored.base_offset >= judged.next_offset - 1
      ORDER BY stored.base_offset DESC LIMIT 1
    ), (
      SELECT stored.base_offset + stored.count FROM queen.durable_segment AS stored
      WHERE stored.partition_id = judged.id ORDER BY stored.base_offset DESC LIMIT 1
    ), 0)
  ) THEN
    RETURN NULL;
  END IF;
  IF goes_on THEN
    RETURN known_epoch;
  END IF;
  IF newest.is_open OR NOT others THEN
    UPDATE queen.durable_epoch SET number = newest.number + 1, is_open = NOT others
    WHERE is_only AND number = newest.number;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'stale: a partition was removed meanwhile' USING ERRCODE = 'QN001';
    END IF;
  END IF;
  RETURN CASE WHEN others THEN 0 ELSE newest.number + 1 END;
END $$;

-- A batch that only appends to partitions that are there.
CREATE FUNCTION queen.commit_appends(
  tail_partition bigint[], tail_next bigint[], tails_unknown integer, known_epoch bigint,
  segment_partition bigint[], segment_base bigint[], segment_created bigint[], segment_count integer[],
  segment_hashes bytea[], segment_payload bytea[]
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  epoch bigint;
  others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  others := queen.has_followers();
  epoch := queen.epoch_for_tails(tail_partition, tail_next, tails_unknown, known_epoch, others);
  IF epoch IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM queen.append_segments(
    segment_partition, segment_base, segment_created, segment_count, segment_hashes, segment_payload
  );
  IF others THEN
    PERFORM queen.note_batch('{}', tail_partition);
  END IF;
  RETURN epoch;
END $$;

-- Any batch.
CREATE FUNCTION queen.commit_batch(
  queue_ids bigint[], queue_tenant uuid[], queue_name text[], queue_namespace text[],
  queue_task text[], queue_options text[], queue_created bigint[],
  partition_ids bigint[], partition_queue bigint[], partition_name text[], partition_created bigint[],
  tail_partition bigint[], tail_next bigint[], tails_unknown integer, known_epoch bigint,
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
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  epoch bigint;
  written bigint;
  others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  others := queen.has_followers();
  -- What is judged on, before anything is written: most of what is stale ends here, without an error.
  IF NOT queen.groups_hold(cursor_groups)
    OR others AND NOT queen.cursors_hold(cursor_group, cursor_partition, cursor_version)
  THEN
    RETURN NULL;
  END IF;
  epoch := queen.epoch_for_tails(tail_partition, tail_next, tails_unknown, known_epoch, others);
  IF epoch IS NULL THEN
    RETURN NULL;
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
    PERFORM queen.append_segments(
      segment_partition, segment_base, segment_created, segment_count, segment_hashes, segment_payload
    );
  END IF;

  IF cardinality(cursor_group) > 0 THEN
    PERFORM queen.move_cursors(
      cursor_group, cursor_partition, cursor_version, cursor_committed, cursor_batch_end, cursor_lease_until,
      cursor_held_until, cursor_settled, cursor_settled_count, cursor_retries, cursor_attempts, cursor_lease
    );
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
  RETURN epoch;
END $$;

-- What brokers from before the epochs call, which may still be at work: each of their batches ends the epoch
-- that is open.
CREATE OR REPLACE FUNCTION queen.commit_batch(
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
LANGUAGE sql VOLATILE AS $$
  SELECT queen.commit_batch(
    queue_ids, queue_tenant, queue_name, queue_namespace, queue_task, queue_options, queue_created,
    partition_ids, partition_queue, partition_name, partition_created, tail_partition, tail_next, 0, 0,
    segment_partition, segment_base, segment_created, segment_count, segment_hashes, segment_payload,
    cursor_groups, cursor_group, cursor_partition, cursor_version, cursor_committed, cursor_batch_end,
    cursor_lease_until, cursor_held_until, cursor_settled, cursor_settled_count, cursor_retries,
    cursor_attempts, cursor_lease, letter_queue, letter_partition, letter_group, letter_offset,
    letter_error, letter_retries, letter_failed, letter_transaction, letter_record, replayed_letters,
    spool_identity, spool_from, spool_to
  ) IS NOT NULL
$$;

-- What the functions of 0011 in its first form call: it ends the open epoch in the same way.
CREATE OR REPLACE FUNCTION queen.tails_hold(tail_partition bigint[], tail_next bigint[]) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT queen.epoch_for_tails(tail_partition, tail_next, 0, 0, queen.has_followers()) IS NOT NULL
$$;
