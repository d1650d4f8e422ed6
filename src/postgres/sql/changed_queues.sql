SELECT tenant, queue, options FROM queen.ephemeral_queue WHERE revision > $1
