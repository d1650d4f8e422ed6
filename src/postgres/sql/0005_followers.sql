-- What one broker tells the others on its database: what it has changed. They remember queues, and what
-- they remember is a hint only (0003), so nothing depends on this but how soon a message that one
-- broker took is delivered by another, and how often a batch is judged in vain.
--
-- Whatever changes the truth holds the lock of 0003 from before it writes here until its commit can be
-- seen. So the numbers have the order of the commits, and who has read up to one has missed none.

CREATE TABLE queen.durable_change (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  broker text COLLATE "C" NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  tenant uuid,
  queue text COLLATE "C",
  partition_ids bigint[]
);

COMMENT ON TABLE queen.durable_change IS
  'What brokers have changed lately, for the others. Written only while there are others. Not to be written by hand.';
COMMENT ON COLUMN queen.durable_change.broker IS 'The incarnation of the one that has; empty: it was no broker.';
COMMENT ON COLUMN queen.durable_change.queue IS 'A queue of which anything may have changed.';
COMMENT ON COLUMN queen.durable_change.partition_ids IS 'Partitions that have grown or in which a group has moved.';

-- Each broker names itself in its sessions.
CREATE FUNCTION queen.this_broker() RETURNS text
LANGUAGE sql STABLE AS $$ SELECT coalesce(current_setting('queen.broker', true), '') $$;

-- Whether anybody else could read what is noted. A broker signs before it remembers anything, and one
-- that has not looked for ten seconds remembers nothing.
CREATE FUNCTION queen.has_followers() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM queen.broker
    WHERE incarnation <> queen.this_broker() AND seen_at > now() - interval '60 seconds'
  );
END $$;

CREATE FUNCTION queen.note_queue(changed_tenant uuid, changed_queue text) RETURNS void
LANGUAGE sql VOLATILE AS $$
  INSERT INTO queen.durable_change (broker, tenant, queue)
  SELECT queen.this_broker(), changed_tenant, changed_queue WHERE queen.has_followers()
$$;

-- To be called only where there are followers.
CREATE FUNCTION queen.note_batch(queue_ids bigint[], partition_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO queen.durable_change (broker, tenant, queue)
  SELECT queen.this_broker(), changed.tenant, changed.name
  FROM queen.durable_queue AS changed WHERE changed.id = ANY (queue_ids);
  IF cardinality(partition_ids) > 0 THEN
    INSERT INTO queen.durable_change (broker, partition_ids) VALUES (queen.this_broker(), partition_ids);
  END IF;
END $$;

CREATE FUNCTION queen.note_change_of_queue() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM queen.note_queue(OLD.tenant, OLD.name);
  ELSE
    PERFORM queen.note_queue(NEW.tenant, NEW.name);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION queen.note_change_of_group() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM queen.note_queue(OLD.tenant, OLD.queue);
  ELSE
    PERFORM queen.note_queue(NEW.tenant, NEW.queue);
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON queen.durable_queue
FOR EACH ROW EXECUTE FUNCTION queen.note_change_of_queue();

CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON queen.durable_group
FOR EACH ROW EXECUTE FUNCTION queen.note_change_of_group();
