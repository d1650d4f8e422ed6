-- The parts of what stores a batch (0012), and what stores one that only moves groups.
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
