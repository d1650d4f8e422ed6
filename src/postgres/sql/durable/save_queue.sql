UPDATE queen.durable_queue SET namespace = $2, task = $3, options = $4::text::jsonb WHERE id = $1
