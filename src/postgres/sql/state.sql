SELECT revision, purged,
       coalesce((SELECT enabled FROM queen.switch WHERE name = 'ephemeral'), true) AS ephemeral_enabled
FROM queen.revision
