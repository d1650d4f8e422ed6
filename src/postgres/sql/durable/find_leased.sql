-- The queues of a tenant ($3) in which a lease of a discovery ($1) holds something. It may hold places of
-- all groups that have the tenant and the name of one of them ($2), so the places of those are looked
-- through: no more than the discovery itself may have looked at, and none where the group is another
-- tenant's, because an id can be made up. OFFSET 0 keeps each step from becoming a join with the whole
-- table.
SELECT other.queue AS name
FROM queen.durable_group AS one
CROSS JOIN LATERAL (
  SELECT stored.id, stored.queue FROM queen.durable_group AS stored
  WHERE stored.tenant = one.tenant AND stored.name = one.name OFFSET 0
) AS other
WHERE one.id = $2 AND one.tenant = $3 AND EXISTS (
  SELECT FROM queen.durable_cursor AS place
  WHERE place.group_id = other.id AND place.lease_id = $1 OFFSET 0
)
