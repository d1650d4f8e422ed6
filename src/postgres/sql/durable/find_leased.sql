-- The queues in which a lease of a discovery ($1) holds something. It may hold places of all groups that
-- have the tenant and the name of one of them ($2), so the places of those are looked through: no more
-- than the discovery itself may have looked at. OFFSET 0 keeps each step from becoming a join with the
-- whole table.
SELECT other.tenant, other.queue AS name
FROM queen.durable_group AS one
CROSS JOIN LATERAL (
  SELECT stored.id, stored.tenant, stored.queue FROM queen.durable_group AS stored
  WHERE stored.tenant = one.tenant AND stored.name = one.name OFFSET 0
) AS other
WHERE one.id = $2 AND EXISTS (
  SELECT FROM queen.durable_cursor AS place
  WHERE place.group_id = other.id AND place.lease_id = $1 OFFSET 0
)
