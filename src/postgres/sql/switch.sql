INSERT INTO queen.switch AS stored (name, enabled) VALUES ('ephemeral', $1)
ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled
WHERE stored.enabled <> excluded.enabled
