"""The program that the ephemeral class was described with, through the published Python client.

Usage: python seed.py URL. Prints "ok" and exits 0 when every step answered as it should.
"""

import asyncio
import sys
import uuid

from queen import EphemeralQueueNotFoundError, Queen

SENT = [{"user": "a", "typing": True}, {"user": "b é", "n": None}]


def payloads(answer):
    return [message["payload"] for message in answer["messages"]]


def outcomes(answer):
    return [result["outcome"] for result in answer["results"]]


async def program(queen, queue):
    ephemeral = queen.ephemeral
    declared = await ephemeral.configure(
        queue,
        max_length=1000,
        max_bytes=1048576,
        policy="dropOldest",
        ttl_seconds=60,
        lease_seconds=10,
        retry_limit=3,
    )
    assert declared["queue"] == queue, declared
    assert declared["options"]["maxLength"] == 1000, declared

    pushed = await ephemeral.push(queue, SENT, partition="room-7")
    assert pushed["pushed"] == 2, pushed
    listed = await ephemeral.queues()
    row = next(row for row in listed["queues"] if row["queue"] == queue)
    assert (row["depth"], row["tier"]) == (2, "declared"), row
    depth = await ephemeral.depth(queue)
    assert depth["pending"] == 2, depth

    for group in ("widget", "audit"):
        got = await ephemeral.pop(
            queue, partition="room-7", batch=10, wait=True, timeout=2000, group=group
        )
        assert payloads(got) == SENT, (group, got)
        acked = await ephemeral.ack(queue, got["messages"], group=group)
        assert outcomes(acked) == ["acked", "acked"], acked

    await ephemeral.push(queue, SENT)
    first = await ephemeral.pop(queue, group="widget")
    nacked = await ephemeral.ack(queue, first["messages"], group="widget", status="retry")
    assert outcomes(nacked) == ["redelivered"], nacked
    again = await ephemeral.pop(queue, group="widget", commit_on_delivery=True)
    assert again["messages"][0]["attempts"] == 2, again

    dropped = await ephemeral.reset(queue)
    assert dropped["dropped"] == 2, dropped
    deleted = await ephemeral.delete(queue)
    assert deleted["deleted"] and deleted["declared"], deleted
    try:
        await ephemeral.depth(queue)
    except EphemeralQueueNotFoundError:
        pass
    else:
        raise AssertionError("the depth of a deleted queue must be an error")


async def request_reply(queen, inbox):
    ephemeral = queen.ephemeral
    waiting = asyncio.create_task(
        ephemeral.pop(inbox, wait=True, timeout=10000, commit_on_delivery=True)
    )
    await asyncio.sleep(0.05)
    await ephemeral.push(inbox, [{"reply": 42}])
    got = await waiting
    assert payloads(got) == [{"reply": 42}], got


async def main(url):
    suffix = uuid.uuid4().hex
    async with Queen(url) as queen:
        await program(queen, f"python/presence {suffix}")
        await request_reply(queen, f"python-inbox-{suffix}")
    print("ok")


asyncio.run(main(sys.argv[1]))
