UPDATE queen.durable_group SET mode = 'from', from_us = $3 WHERE tenant = $1 AND name = $2
