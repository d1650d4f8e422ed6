-- Stores a batch, or nothing of it: the fence of 0003. Judged on what is not so any more, it ends with
-- false; where something was written already, with the error QN001, or with that of a key that is taken
-- where it is a cursor's. ON CONFLICT would spare the latter, but makes each new cursor half as dear again,
-- and where there are other brokers the versions are compared before.
--
-- Most batches only append, or only move groups. A batch of two acks has values for 13 of the 45 parameters
-- of queen.commit_batch, and each parameter costs, whether it is empty or not: it is bound, and PL/pgSQL
-- takes each array apart. So there is a function for each of the two, and all three have the same parts.
--
-- In a step of its own, so that databases which have an earlier form of them get these.
--
-- HOW IT IS PLANNED. Every session of a broker has plan_cache_mode = force_generic_plan and
-- enable_seqscan = off: planning afresh takes longer than the work. But a plan made while a table was
-- empty stays in force until the next ANALYZE, while the table may grow by millions of rows in a minute.
-- So the statements are written in such a way that there is one plan, whatever the table holds:
-- - arrays come apart in the select list of a subquery, side by side. As a function in FROM they would be
--   copied, the messages too, into a store that goes to disk above work_mem;
-- - who looks up a row does so behind OFFSET 0, which the planner must not turn into a join, so that
--   only the index on the key is left;
-- - what is updated is looked up like that, too, and then taken by where it lies. `key = ANY (ARRAY[x])`,
--   which cannot become a merge or hash join either, is no substitute: planned on a table that was
--   vacuumed while it was empty, it uses nothing but the first column of the key, which was 1.3 ms for
--   each row of a group with 5,000 cursors, instead of 6 us.

-- Whether partitions are there and end where it was judged that they do.
CREATE OR REPLACE FUNCTION queen.tails_hold(tail_partition bigint[], tail_next bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (
    SELECT count(*) = cardinality(tail_partition)
    FROM (SELECT unnest(tail_partition) AS id, unnest(tail_next) AS next_offset) AS judged
    WHERE EXISTS (
      SELECT FROM queen.durable_partition AS stored WHERE stored.id = judged.id OFFSET 0
    ) AND judged.next_offset = coalesce((
      -- A step backward in an index reads all that fits of its page, hundreds of small segments. Where a
      -- partition ends with a segment of one message, that is found without the others.
      SELECT stored.base_offset + stored.count FROM queen.durable_segment AS stored
      WHERE stored.partition_id = judged.id AND stored.base_offset >= judged.next_offset - 1
      ORDER BY stored.base_offset DESC LIMIT 1
    ), (
      SELECT stored.base_offset + stored.count FROM queen.durable_segment AS stored
      WHERE stored.partition_id = judged.id ORDER BY stored.base_offset DESC LIMIT 1
    ), 0)
  );
END $$;

CREATE OR REPLACE FUNCTION queen.append_segments(
  segment_partition bigint[], segment_base bigint[], segment_created bigint[], segment_count integer[],
  segment_hashes bytea[], segment_payload bytea[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO queen.durable_segment (partition_id, base_offset, created_us, count, hashes, payload)
  SELECT unnest(segment_partition), unnest(segment_base), unnest(segment_created),
         unnest(segment_count), unnest(segment_hashes), unnest(segment_payload);
END $$;

-- Whether groups are there.
CREATE OR REPLACE FUNCTION queen.groups_hold(cursor_groups bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (
    SELECT count(*) = cardinality(cursor_groups) FROM (SELECT unnest(cursor_groups) AS id) AS judged
    WHERE EXISTS (
      SELECT FROM queen.durable_group AS stored WHERE stored.id = judged.id OFFSET 0
    )
  );
END $$;

-- Whether cursors have the versions that were judged on. The update finds that, too, but with an error in
-- the server's log: where brokers share queues it is common that one has taken what another one would take.
-- Who is alone need not look twice.
CREATE OR REPLACE FUNCTION queen.cursors_hold(
  cursor_group bigint[], cursor_partition bigint[], cursor_version bigint[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (
    SELECT count(*) = cardinality(cursor_group)
    FROM (
      SELECT unnest(cursor_group) AS group_id, unnest(cursor_partition) AS partition_id,
             unnest(cursor_version) AS version
    ) AS judged
    WHERE judged.version = coalesce((
      SELECT stored.version FROM queen.durable_cursor AS stored
      WHERE stored.group_id = judged.group_id AND stored.partition_id = judged.partition_id
    ), 0)
  );
END $$;

CREATE OR REPLACE FUNCTION queen.move_cursors(
  cursor_group bigint[], cursor_partition bigint[], cursor_version bigint[], cursor_committed bigint[],
  cursor_batch_end bigint[], cursor_lease_until bigint[], cursor_held_until bigint[],
  cursor_settled bigint[], cursor_settled_count bigint[], cursor_retries integer[],
  cursor_attempts integer[], cursor_lease uuid[]
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moved bigint := 0;
  made bigint;
BEGIN
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
    CROSS JOIN LATERAL (
      SELECT place.ctid FROM queen.durable_cursor AS place
      WHERE place.group_id = judged.group_id AND place.partition_id = judged.partition_id
        AND place.version = judged.version OFFSET 0
    ) AS found
    WHERE stored.ctid = found.ctid AND stored.version = judged.version;
    GET DIAGNOSTICS moved = ROW_COUNT;
  END IF;
  IF moved <> cardinality(cursor_group) THEN
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
    );
    GET DIAGNOSTICS made = ROW_COUNT;
    IF moved + made <> cardinality(cursor_group) THEN
      RAISE EXCEPTION 'stale: a cursor was moved by another broker' USING ERRCODE = 'QN001';
    END IF;
  END IF;
END $$;

-- A batch that only appends to partitions that are there.
CREATE OR REPLACE FUNCTION queen.commit_appends(
  tail_partition bigint[], tail_next bigint[],
  segment_partition bigint[], segment_base bigint[], segment_created bigint[], segment_count integer[],
  segment_hashes bytea[], segment_payload bytea[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  IF NOT queen.tails_hold(tail_partition, tail_next) THEN
    RETURN false;
  END IF;
  PERFORM queen.append_segments(
    segment_partition, segment_base, segment_created, segment_count, segment_hashes, segment_payload
  );
  IF queen.has_followers() THEN
    PERFORM queen.note_batch('{}', tail_partition);
  END IF;
  RETURN true;
END $$;

-- A batch that only moves groups: leases and acks.
CREATE OR REPLACE FUNCTION queen.commit_moves(
  cursor_groups bigint[],
  cursor_group bigint[], cursor_partition bigint[], cursor_version bigint[], cursor_committed bigint[],
  cursor_batch_end bigint[], cursor_lease_until bigint[], cursor_held_until bigint[],
  cursor_settled bigint[], cursor_settled_count bigint[], cursor_retries integer[],
  cursor_attempts integer[], cursor_lease uuid[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  others := queen.has_followers();
  IF NOT queen.groups_hold(cursor_groups)
    OR others AND NOT queen.cursors_hold(cursor_group, cursor_partition, cursor_version)
  THEN
    RETURN false;
  END IF;
  PERFORM queen.move_cursors(
    cursor_group, cursor_partition, cursor_version, cursor_committed, cursor_batch_end, cursor_lease_until,
    cursor_held_until, cursor_settled, cursor_settled_count, cursor_retries, cursor_attempts, cursor_lease
  );
  IF others THEN
    PERFORM queen.note_batch('{}', cursor_partition);
  END IF;
  RETURN true;
END $$;

-- Any batch.
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
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  written bigint;
  others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(31935750722158594);

  others := queen.has_followers();
  -- What is judged on, before anything is written: most of what is stale ends here, without an error.
  IF NOT queen.tails_hold(tail_partition, tail_next) OR NOT queen.groups_hold(cursor_groups)
    OR others AND NOT queen.cursors_hold(cursor_group, cursor_partition, cursor_version)
  THEN
    RETURN false;
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
  RETURN true;
END $$;

COMMENT ON FUNCTION queen.commit_batch IS
  'Stores what a broker has judged, all or nothing; false, QN001 or a key that is taken: it was judged on what is not so any more. Not to be called by hand.';
