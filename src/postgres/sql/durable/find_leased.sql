-- The queues in which a lease holds something. Looks through all places: an index on leases would make each
-- pop and each ack a third dearer, and this is asked only for a lease that the broker does not remember,
-- as after its start.
SELECT DISTINCT home.tenant, home.name
FROM queen.durable_cursor AS place
JOIN queen.durable_partition AS partition ON partition.id = place.partition_id
JOIN queen.durable_queue AS home ON home.id = partition.queue_id
WHERE place.lease_id = $1
