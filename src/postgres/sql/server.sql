SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_encoding') AS encoding,
       current_setting('fsync') = 'on' AS fsync
