-- Partitions that nobody uses any more. A partition stays although retention has removed what it could:
-- its last segment says where it ends (0003). Where names of partitions come and go, those add up.
--
-- Removing one changes the truth, so it takes the lock of the batches; which ones are idle is looked for
-- before that, and looked at again behind it. The fence of 0003 holds as for a deleted queue: the ids of
-- partitions are never used twice, a batch that was judged on one that is gone finds neither its row nor
-- its cursors, and one of the same name is another partition that begins at 0. Who was told to come
-- from there on would miss nothing: all groups had passed everything, and they take a partition that comes
-- to be from its beginning.

-- Whether a partition is empty but for what says where it ends, all groups are at its end, and nothing has
-- happened there since a time. Without a group nobody has passed anything, unless what is too old is given
-- up anyway. Dead letters and traces refer to their partition: one that has some is in use.
CREATE FUNCTION queen.is_idle(
  wanted_partition bigint, owner_tenant uuid, owner_name text, gives_up boolean, since_us bigint
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest record;
  consumers record;
BEGIN
  SELECT base_offset, base_offset + count AS next_offset, created_us INTO newest FROM queen.durable_segment
  WHERE partition_id = wanted_partition ORDER BY base_offset DESC LIMIT 1;
  IF NOT FOUND OR newest.created_us >= since_us THEN
    RETURN false;
  END IF;
  IF EXISTS (
    SELECT FROM queen.durable_segment
    WHERE partition_id = wanted_partition AND base_offset < newest.base_offset
  ) OR EXISTS (
    SELECT FROM queen.dead_letter WHERE partition_id = wanted_partition
  ) OR EXISTS (
    SELECT FROM queen.trace WHERE partition_id = wanted_partition
  ) THEN
    RETURN false;
  END IF;
  SELECT count(*) AS number, bool_and(coalesce((
    SELECT place.committed >= newest.next_offset AND place.settled_us < since_us
    FROM queen.durable_cursor AS place
    WHERE place.group_id = consumer.id AND place.partition_id = wanted_partition
  ), false)) AS are_done
  INTO consumers FROM queen.durable_group AS consumer
  WHERE consumer.tenant = owner_tenant AND consumer.queue = owner_name;
  RETURN CASE consumers.number WHEN 0 THEN gives_up ELSE consumers.are_done END;
END $$;

-- One step: removes idle partitions, at most so many rows but at least one partition, after a look at no
-- more than so many of them behind a place, in queues that want retention. Answers which and from where
-- to go on, and whether the round is over. What their segments hold is left to be swept.
CREATE FUNCTION queen.remove_idle(
  INOUT at_queue bigint, INOUT at_partition text, idle_us bigint, rows_max integer, partitions_max integer,
  OUT removed bigint[], OUT is_over boolean
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  owner record;
  home record;
  groups bigint;
  looked integer := 0;
  cost bigint := 0;
  idle_ids bigint[] := '{}';
  idle_since bigint[] := '{}';
  queue_ids bigint[] := '{}';
BEGIN
  removed := '{}';
  is_over := false;
  <<round>>
  LOOP
    SELECT id, tenant, name, queen.waiting_age_us(options) IS NOT NULL AS gives_up,
           now_us - greatest(idle_us, queen.passed_age_us(options),
             1000000 * coalesce((options->>'dedup_window_s')::bigint, 3600)) AS since_us
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
    SELECT count(*) INTO groups FROM queen.durable_group
    WHERE tenant = owner.tenant AND queue = owner.name;
    FOR home IN
      SELECT id, name FROM queen.durable_partition WHERE queue_id = at_queue AND name > at_partition
      ORDER BY queue_id, name LIMIT greatest(partitions_max - looked, 1)
    LOOP
      looked := looked + 1;
      IF queen.is_idle(home.id, owner.tenant, owner.name, owner.gives_up, owner.since_us) THEN
        -- Its own row, that of what is to be swept, and a cursor for each group.
        cost := cost + 2 + groups;
        EXIT round WHEN cost > rows_max AND cardinality(idle_ids) > 0;
        idle_ids := idle_ids || home.id;
        idle_since := idle_since || owner.since_us;
      END IF;
      at_partition := home.name;
    END LOOP;
    EXIT round WHEN looked >= partitions_max;
    at_queue := at_queue + 1;
    at_partition := '';
  END LOOP;
  IF cardinality(idle_ids) = 0 THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(31935750722158594);
  FOR home IN
    SELECT stored.id, stored.queue_id, wanted.since_us, holder.tenant, holder.name,
           queen.waiting_age_us(holder.options) IS NOT NULL AS gives_up
    FROM (SELECT unnest(idle_ids) AS id, unnest(idle_since) AS since_us) AS wanted
    JOIN queen.durable_partition AS stored ON stored.id = wanted.id
    JOIN queen.durable_queue AS holder ON holder.id = stored.queue_id
  LOOP
    CONTINUE WHEN NOT queen.is_idle(home.id, home.tenant, home.name, home.gives_up, home.since_us);
    DELETE FROM queen.durable_cursor WHERE partition_id = home.id AND group_id IN (
      SELECT id FROM queen.durable_group WHERE tenant = home.tenant AND queue = home.name
    );
    DELETE FROM queen.durable_partition WHERE id = home.id;
    INSERT INTO queen.durable_leftover (kind, id) VALUES ('partition', home.id);
    removed := removed || home.id;
    queue_ids := queue_ids || home.queue_id;
  END LOOP;
  IF queen.has_followers() THEN
    PERFORM queen.note_batch(queue_ids, '{}');
  END IF;
END $$;

COMMENT ON FUNCTION queen.remove_idle IS 'Removes a bounded number of partitions that are empty and unused.';
