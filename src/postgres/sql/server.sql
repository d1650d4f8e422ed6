SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_encoding') AS encoding,
       current_setting('fsync') = 'on' AS fsync,
       pg_catalog.current_database()::text AS database,
       current_user::text AS login
