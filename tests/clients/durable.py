"""The published Python client on the durable class: what its own README shows, against a broker.

usage: durable.py URL; prints `ok` at the end.
"""

import asyncio
import sys
import uuid

from queen import Queen

RUN = uuid.uuid4().hex[:8]


def name(text):
    """A queue of this run alone: the broker may keep those of earlier ones."""
    return f"{text}-{RUN}"


async def drained(queen, queue, group=None, count=1):
    """Takes and acks until `count` messages have come, in the order of their delivery."""
    taken = []
    for _ in range(200):
        builder = queen.queue(queue).batch(50).partitions(16).wait(True)
        if group:
            builder = builder.group(group).subscription_mode("all")
        for message in await builder.pop():
            taken.append(message)
            # Builder and ack agree about the group by the message itself.
            await queen.ack(message, True, {"group": group} if group else {})
        if len(taken) >= count:
            return taken
    raise AssertionError(f"{len(taken)} of {count} messages came")


async def quick_start(queen):
    queue = name("tasks")
    await queen.queue(queue).create()
    await queen.queue(queue).push([{"data": {"task": "send-email", "to": "alice@example.com"}}])
    seen = []

    async def process(message):
        seen.append(message["data"])

    # Without a batch the broker sizes it, and the handler would get a list.
    await queen.queue(queue).batch(1).limit(1).consume(process)
    assert seen == [{"task": "send-email", "to": "alice@example.com"}], seen


async def partitions_keep_their_order(queen):
    queue = name("user-events")
    for event in ("login", "view-page", "logout"):
        await queen.queue(queue).partition("user-123").push([{"data": {"event": event}}])
    await queen.queue(queue).partition("user-456").push([{"data": {"event": "login"}}])
    taken = await drained(queen, queue, count=4)
    order = [m["data"]["event"] for m in taken if m["partition"] == "user-123"]
    assert order == ["login", "view-page", "logout"], order


async def every_group_gets_everything(queen):
    queue = name("emails")
    await queen.queue(queue).push([{"data": {"n": n}} for n in range(3)])
    for group in ("processors", "analytics"):
        taken = await drained(queen, queue, group, 3)
        assert [m["data"]["n"] for m in taken] == [0, 1, 2], taken


async def a_repeated_push_is_one_message(queen):
    queue = name("payments")
    for _ in range(2):
        await queen.queue(queue).push([{"transactionId": "charge-1", "data": {"value": 42}}])
    await queen.queue(queue).push([{"transactionId": "charge-2", "data": {"value": 43}}])
    taken = await drained(queen, queue, count=2)
    assert [m["transactionId"] for m in taken] == ["charge-1", "charge-2"], taken


async def batches_are_consumed_whole(queen):
    queue = name("batches")
    await queen.queue(queue).push([{"data": {"n": n}} for n in range(40)])
    seen = []

    async def process(messages):
        seen.extend(message["data"]["n"] for message in messages)

    await queen.queue(queue).batch(20).limit(40).consume(process)
    assert sorted(seen) == list(range(40)), seen


async def a_failure_brings_the_message_back(queen):
    queue = name("flaky")
    await queen.queue(queue).push([{"data": {"n": 1}}])
    [message] = await queen.queue(queue).batch(1).wait(True).pop()
    await queen.ack(message, False)
    [again] = await queen.queue(queue).batch(1).wait(True).pop()
    assert again["transactionId"] == message["transactionId"]
    await queen.ack(again, True)


async def a_transaction_happens_whole(queen):
    source, target = name("input"), name("output")
    await queen.queue(source).push([{"data": {"n": 1}}])
    [message] = await queen.queue(source).batch(1).wait(True).pop()
    await (
        queen.transaction().ack(message).queue(target).push([{"data": {"n": 2}}]).commit()
    )
    [result] = await queen.queue(target).batch(1).wait(True).pop()
    assert result["data"] == {"n": 2}, result
    # What is acked already refuses the whole of it.
    try:
        await (
            queen.transaction().ack(message).queue(target).push([{"data": {"n": 3}}]).commit()
        )
    except Exception as fault:
        assert "invalid or expired lease" in str(fault), fault
    else:
        raise AssertionError("an acked message was acked again")
    await queen.ack(result, True)
    assert await queen.queue(target).batch(1).wait(False).pop() == []


async def buffered_pushes_arrive(queen):
    queue = name("buffered")
    for n in range(250):
        await queen.queue(queue).buffer({"message_count": 100, "time_millis": 1000}).push(
            [{"data": {"n": n}}]
        )
    await queen.flush_all_buffers()
    taken = await drained(queen, queue, count=250)
    assert [m["data"]["n"] for m in taken] == list(range(250))


async def a_commit_at_delivery_needs_no_ack(queen):
    queue = name("metrics")
    await queen.queue(queue).push([{"data": {"n": 1}}])
    taken = await queen.queue(queue).batch(5).commit_on_delivery().pop()
    assert len(taken) == 1, taken
    assert await queen.queue(queue).batch(5).wait(False).pop() == []


async def main(url):
    async with Queen(url) as queen:
        for step in (
            quick_start,
            partitions_keep_their_order,
            every_group_gets_everything,
            a_repeated_push_is_one_message,
            batches_are_consumed_whole,
            a_failure_brings_the_message_back,
            a_transaction_happens_whole,
            buffered_pushes_arrive,
            a_commit_at_delivery_needs_no_ack,
        ):
            await asyncio.wait_for(step(queen), 60)
            print(step.__name__)
    print("ok")


asyncio.run(main(sys.argv[1]))
