-- Declared queues of the ephemeral class, what tenants are granted, and the operator's switch.
--
-- One row counts all changes. Whoever changes something locks it first and keeps it until the commit,
-- so that commits have the order of their revisions and a reader who has seen one revision has seen
-- all before it. The triggers see to that, whoever makes the change.

CREATE TABLE queen.revision (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  revision bigint NOT NULL DEFAULT 0,
  purged bigint NOT NULL DEFAULT 0
);

COMMENT ON TABLE queen.revision IS 'Counts the changes that brokers follow. Not to be written by hand.';
COMMENT ON COLUMN queen.revision.purged IS
  'The newest revision whose removals are forgotten: who has not seen it reads everything anew.';

INSERT INTO queen.revision DEFAULT VALUES;

CREATE TABLE queen.ephemeral_queue (
  tenant uuid NOT NULL,
  queue text COLLATE "C" NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 512),
  options text NOT NULL,
  revision bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, queue)
);

CREATE INDEX ephemeral_queue_revision ON queen.ephemeral_queue (revision);

COMMENT ON TABLE queen.ephemeral_queue IS 'Declared queues of the ephemeral class. Their messages are in RAM only.';
COMMENT ON COLUMN queen.ephemeral_queue.options IS 'A JSON object, exactly as the client sent it.';
COMMENT ON COLUMN queen.ephemeral_queue.revision IS 'The revision of the last change; set by a trigger.';
COMMENT ON COLUMN queen.ephemeral_queue.changed_at IS 'When the row was changed last; set by a trigger.';

CREATE TABLE queen.ephemeral_queue_removed (
  tenant uuid NOT NULL,
  queue text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  removed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, queue)
);

CREATE INDEX ephemeral_queue_removed_revision ON queen.ephemeral_queue_removed (revision);

COMMENT ON TABLE queen.ephemeral_queue_removed IS
  'Queues that were declared until an hour ago, so that every broker sees the removal. Not to be written by hand.';

CREATE TABLE queen.ephemeral_grant (
  tenant uuid PRIMARY KEY,
  enabled boolean NOT NULL DEFAULT true,
  max_bytes bigint CHECK (max_bytes >= 0),
  max_queues bigint CHECK (max_queues >= 0),
  max_messages_per_second bigint CHECK (max_messages_per_second >= 1)
);

COMMENT ON TABLE queen.ephemeral_grant IS
  'What each tenant may use of the ephemeral class. Written by operators; brokers follow within a second.';
COMMENT ON COLUMN queen.ephemeral_grant.tenant IS 'The UUID of the tenant.';
COMMENT ON COLUMN queen.ephemeral_grant.enabled IS
  'false refuses every push, pop, ack and configure of the tenant with 403 feature_gated.';
COMMENT ON COLUMN queen.ephemeral_grant.max_bytes IS
  'Payload bytes that the tenant may hold on one broker; NULL: no bound of its own. Lowering it drops nothing.';
COMMENT ON COLUMN queen.ephemeral_grant.max_queues IS
  'Queues that the tenant may have on one broker, declared and implicit; NULL: no bound of its own.';
COMMENT ON COLUMN queen.ephemeral_grant.max_messages_per_second IS
  'Messages that the tenant may push in a second, on one broker, at once or spread; NULL: what the broker allows.';

CREATE TABLE queen.switch (
  name text COLLATE "C" PRIMARY KEY,
  enabled boolean NOT NULL
);

COMMENT ON TABLE queen.switch IS 'Switches of the operator. Brokers follow within a second.';
COMMENT ON COLUMN queen.switch.name IS 'ephemeral: the whole ephemeral class. A missing row is an enabled switch.';
COMMENT ON COLUMN queen.switch.enabled IS 'false pauses the class on all brokers: 503 ephemeral_disabled.';

INSERT INTO queen.switch VALUES ('ephemeral', true);

-- Locks and advances the revision, once in a transaction. The rights are the broker's, so that who may
-- write to a table needs none for what the triggers do.
CREATE FUNCTION queen.advance_revision() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mine bigint := nullif(current_setting('queen.revision_of_transaction', true), '');
BEGIN
  IF mine IS NULL THEN
    UPDATE queen.revision SET revision = revision + 1 RETURNING revision INTO STRICT mine;
    PERFORM set_config('queen.revision_of_transaction', mine::text, true);
  END IF;
  RETURN mine;
END $$;

REVOKE ALL ON FUNCTION queen.advance_revision() FROM PUBLIC;

CREATE FUNCTION queen.before_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM queen.advance_revision();
  RETURN NULL;
END $$;

CREATE FUNCTION queen.before_queue_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.revision := queen.advance_revision();
  NEW.changed_at := now();
  IF TG_OP = 'UPDATE' AND (NEW.tenant <> OLD.tenant OR NEW.queue <> OLD.queue) THEN
    INSERT INTO queen.ephemeral_queue_removed AS removed
    VALUES (OLD.tenant, OLD.queue, NEW.revision, now())
    ON CONFLICT (tenant, queue) DO UPDATE
    SET revision = excluded.revision, removed_at = excluded.removed_at;
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION queen.after_queue_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO queen.ephemeral_queue_removed
  SELECT tenant, queue, queen.advance_revision(), now() FROM gone
  ON CONFLICT (tenant, queue) DO UPDATE
  SET revision = excluded.revision, removed_at = excluded.removed_at;
  RETURN NULL;
END $$;

CREATE FUNCTION queen.after_queue_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE queen.revision SET purged = queen.advance_revision();
  RETURN NULL;
END $$;

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.ephemeral_queue
FOR EACH STATEMENT EXECUTE FUNCTION queen.before_change();
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON queen.ephemeral_queue
FOR EACH ROW EXECUTE FUNCTION queen.before_queue_row();
CREATE TRIGGER after_delete AFTER DELETE ON queen.ephemeral_queue
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION queen.after_queue_delete();
CREATE TRIGGER after_truncate AFTER TRUNCATE ON queen.ephemeral_queue
FOR EACH STATEMENT EXECUTE FUNCTION queen.after_queue_truncate();

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.ephemeral_grant
FOR EACH STATEMENT EXECUTE FUNCTION queen.before_change();
CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON queen.switch
FOR EACH STATEMENT EXECUTE FUNCTION queen.before_change();
