-- What goes with age. Two things, each in bounded steps that go round all partitions of the queues that
-- want it: queen.retain removes what all groups have passed, queen.expired finds what some group has not
-- passed and is given up for it.
--
-- Removing takes no lock of the batches. No batch is judged on what goes: a tail is the end of the last
-- segment, which stays; a transaction id inside the window of its queue stays; and what groups have
-- passed none of them reads, unless an operator sends it back, and then it finds what is left. Two
-- brokers that remove at once would wait for each other's rows: one of them does nothing instead.
--
-- Giving up moves cursors, so it is judged and stored like any other batch.

-- The age from which what all groups have passed is removed, in microseconds; NULL: never.
CREATE FUNCTION queen.passed_age_us(options jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT 1000000 * least(
    CASE WHEN (options->>'retention_enabled')::boolean THEN nullif((options->>'retention_s')::bigint, 0) END,
    CASE WHEN (options->>'retention_enabled')::boolean THEN
      nullif((options->>'completed_retention_s')::bigint, 0)
    END,
    nullif((options->>'max_wait_s')::bigint, 0)
  )
$$;

-- The age from which a message is given up, in microseconds; NULL: never.
CREATE FUNCTION queen.waiting_age_us(options jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000 * nullif((options->>'max_wait_s')::bigint, 0) $$;

-- Most queues want neither: those that do are found without a look at the others.
CREATE INDEX durable_queue_retained ON queen.durable_queue (id) WHERE queen.passed_age_us(options) IS NOT NULL;
CREATE INDEX durable_queue_waiting ON queen.durable_queue (id) WHERE queen.waiting_age_us(options) IS NOT NULL;

-- One step: removes at most so many segments, after a look at no more than so many partitions behind a
-- place. Answers how many and from where to go on (the place), whether the round is over, and where the
-- partitions that have lost something begin now.
--
-- Offsets and times of segments grow together, so what goes from a partition is the beginning of it.
CREATE FUNCTION queen.retain(
  INOUT at_queue bigint, INOUT at_partition text, rows_max integer, partitions_max integer,
  OUT removed integer, OUT is_over boolean, OUT partition_ids bigint[], OUT first_offsets bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  owner record;
  home record;
  last_base bigint;
  passed bigint;
  age_us bigint;
  bound record;
  step integer;
  looked integer := 0;
BEGIN
  removed := 0;
  is_over := false;
  partition_ids := '{}';
  first_offsets := '{}';
  IF NOT pg_try_advisory_xact_lock(31935750722158595) THEN
    is_over := true;
    RETURN;
  END IF;
  <<round>>
  LOOP
    SELECT id, tenant, name, queen.passed_age_us(options) AS passed_us,
           queen.waiting_age_us(options) AS waiting_us,
           1000000 * coalesce((options->>'dedup_window_s')::bigint, 3600) AS window_us
    INTO owner FROM queen.durable_queue
    WHERE id >= at_queue AND queen.passed_age_us(options) IS NOT NULL ORDER BY id LIMIT 1;
    IF NOT FOUND THEN
      is_over := true;
      at_queue := 0;
      at_partition := '';
      EXIT round;
    END IF;
    IF owner.id <> at_queue THEN
      at_queue := owner.id;
      at_partition := '';
    END IF;
    looked := looked + 1;
    FOR home IN
      SELECT id, name FROM queen.durable_partition WHERE queue_id = at_queue AND name > at_partition
      ORDER BY queue_id, name LIMIT greatest(partitions_max - looked, 1)
    LOOP
      looked := looked + 1;
      SELECT base_offset INTO last_base FROM queen.durable_segment
      WHERE partition_id = home.id ORDER BY base_offset DESC LIMIT 1;
      -- NULL: there is no group.
      SELECT min(coalesce((
        SELECT place.committed FROM queen.durable_cursor AS place
        WHERE place.group_id = consumer.id AND place.partition_id = home.id
      ), 0)) INTO passed
      FROM queen.durable_group AS consumer
      WHERE consumer.tenant = owner.tenant AND consumer.queue = owner.name;
      age_us := owner.passed_us;
      IF passed IS NULL THEN
        -- Nobody has passed anything, and nobody is there to give it up for.
        passed := CASE WHEN owner.waiting_us IS NULL THEN 0 ELSE last_base END;
        age_us := owner.waiting_us;
      END IF;
      SELECT step_row.base_offset, step_row.base_offset + step_row.count AS next_offset INTO bound
      FROM (
        SELECT base_offset, count, created_us FROM queen.durable_segment
        WHERE partition_id = home.id AND base_offset < last_base
        ORDER BY base_offset LIMIT rows_max - removed
      ) AS step_row
      WHERE step_row.created_us < now_us - greatest(age_us, owner.window_us)
        AND step_row.base_offset + step_row.count <= passed
      ORDER BY step_row.base_offset DESC LIMIT 1;
      IF FOUND THEN
        DELETE FROM queen.durable_segment WHERE partition_id = home.id AND base_offset <= bound.base_offset;
        GET DIAGNOSTICS step = ROW_COUNT;
        removed := removed + step;
        partition_ids := partition_ids || home.id;
        first_offsets := first_offsets || bound.next_offset;
        -- There may be more of it.
        EXIT round WHEN removed >= rows_max;
      END IF;
      at_partition := home.name;
    END LOOP;
    EXIT round WHEN looked >= partitions_max;
    at_queue := at_queue + 1;
    at_partition := '';
  END LOOP;
  IF cardinality(partition_ids) > 0 AND queen.has_followers() THEN
    -- Without the lock others may overlook it; then a group that is sent back there takes nothing once.
    PERFORM queen.note_batch('{}', partition_ids);
  END IF;
END $$;

COMMENT ON FUNCTION queen.retain IS 'Removes a bounded number of old segments that all groups have passed.';

-- One step: what groups have not passed although it is too old, at most so many messages of so many
-- bytes, after a look at no more than so many partitions behind a place. A row for each group and
-- partition, with the offset up to which to give up now; one that makes no dead letters counts as one
-- message.
CREATE FUNCTION queen.expired(
  INOUT at_queue bigint, INOUT at_partition text, rows_max integer, bytes_max bigint, partitions_max integer,
  OUT is_over boolean, OUT queue_ids bigint[], OUT group_ids bigint[], OUT partition_ids bigint[],
  OUT offsets bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  owner record;
  home record;
  consumer record;
  newest record;
  too_old bigint;
  beginning bigint;
  upto bigint;
  rows_left bigint := rows_max;
  bytes_left bigint := bytes_max;
  run record;
  looked integer := 0;
BEGIN
  is_over := false;
  queue_ids := '{}';
  group_ids := '{}';
  partition_ids := '{}';
  offsets := '{}';
  <<round>>
  LOOP
    SELECT id, tenant, name, queen.waiting_age_us(options) AS waiting_us,
           coalesce((options->>'dead_letter_queue')::boolean, true)
             OR coalesce((options->>'dead_letter_after_retries')::boolean, true) AS keeps
    INTO owner FROM queen.durable_queue
    WHERE id >= at_queue AND queen.waiting_age_us(options) IS NOT NULL ORDER BY id LIMIT 1;
    IF NOT FOUND THEN
      is_over := true;
      at_queue := 0;
      at_partition := '';
      EXIT round;
    END IF;
    IF owner.id <> at_queue THEN
      at_queue := owner.id;
      at_partition := '';
    END IF;
    looked := looked + 1;
    FOR home IN
      SELECT id, name FROM queen.durable_partition WHERE queue_id = at_queue AND name > at_partition
      ORDER BY queue_id, name LIMIT greatest(partitions_max - looked, 1)
    LOOP
      looked := looked + 1;
      too_old := NULL;
      SELECT base_offset + count AS next_offset INTO newest FROM queen.durable_segment
      WHERE partition_id = home.id ORDER BY base_offset DESC LIMIT 1;
      FOR consumer IN
        SELECT stored.id, coalesce((
          SELECT place.committed FROM queen.durable_cursor AS place
          WHERE place.group_id = stored.id AND place.partition_id = home.id
        ), 0) AS committed
        FROM queen.durable_group AS stored
        WHERE stored.tenant = owner.tenant AND stored.queue = owner.name
      LOOP
        CONTINUE WHEN consumer.committed >= coalesce(newest.next_offset, 0);
        -- Where all groups have passed everything nobody asks for it.
        too_old := coalesce(too_old, queen.durable_offset_at(home.id, now_us - owner.waiting_us));
        CONTINUE WHEN consumer.committed >= too_old;
        EXIT round WHEN rows_left <= 0;
        upto := too_old;
        beginning := too_old - 1;
        IF owner.keeps THEN
          SELECT base_offset INTO beginning FROM queen.durable_segment
          WHERE partition_id = home.id AND base_offset <= consumer.committed
          ORDER BY base_offset DESC LIMIT 1;
          SELECT count(*) AS segments, min(base_offset) AS first_offset, max(end_offset) AS end_offset,
                 max(bytes) AS bytes
          INTO run FROM (
            SELECT base_offset, base_offset + count AS end_offset,
                   row_number() OVER (ORDER BY base_offset) AS place,
                   sum(octet_length(payload)) OVER (ORDER BY base_offset) AS bytes
            FROM (
              SELECT base_offset, count, payload FROM queen.durable_segment
              WHERE partition_id = home.id AND base_offset >= coalesce(beginning, 0) AND base_offset < too_old
              ORDER BY base_offset LIMIT rows_max
            ) AS kept
          ) AS summed
          WHERE place = 1 OR bytes <= bytes_left;
          IF run.segments > 0 THEN
            beginning := greatest(run.first_offset, consumer.committed);
            upto := least(too_old, run.end_offset, beginning + rows_left);
            bytes_left := bytes_left - run.bytes;
          ELSE
            beginning := too_old - 1;
          END IF;
        END IF;
        rows_left := rows_left - (upto - beginning);
        queue_ids := queue_ids || owner.id;
        group_ids := group_ids || consumer.id;
        partition_ids := partition_ids || home.id;
        offsets := offsets || upto;
        -- There is more of it: the partition is looked at again.
        EXIT round WHEN upto < too_old OR bytes_left <= 0;
      END LOOP;
      at_partition := home.name;
    END LOOP;
    EXIT round WHEN looked >= partitions_max;
    at_queue := at_queue + 1;
    at_partition := '';
  END LOOP;
END $$;

COMMENT ON FUNCTION queen.expired IS 'Finds a bounded number of messages that are too old for the groups that have not passed them.';
