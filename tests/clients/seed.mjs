// The program that the ephemeral class was described with, over Node's built-in fetch, with the
// fields and the encoding that a JavaScript client uses.
//
// Usage: node seed.mjs URL. Prints "ok" and exits 0 when every step answered as it should.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

const url = process.argv[2];
const sent = [{ user: "a", typing: true }, { user: "b \u00e9", n: null }];

async function call(method, path, body, expected) {
  const response = await fetch(url + path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  assert.equal(response.status, expected, `${method} ${path}: ${text}`);
  assert.match(response.headers.get("content-type"), /^application\/json/);
  return JSON.parse(text);
}

const post = (verb, body, expected = 200) =>
  call("POST", `/api/v1/ephemeral/${verb}`, body, expected);

// URLSearchParams writes a space as a plus sign, as JavaScript clients do.
const pop = (keys) =>
  call("GET", `/api/v1/ephemeral/pop?${new URLSearchParams(keys)}`, undefined, 200);

const payloads = (answer) => answer.messages.map((message) => message.payload);
const outcomes = (answer) => answer.results.map((result) => result.outcome);

async function program(queue) {
  const options = {
    maxLength: 1000,
    maxBytes: 1048576,
    policy: "dropOldest",
    ttlSeconds: 60,
    leaseSeconds: 10,
    retryLimit: 3,
  };
  const declared = await post("configure", { queue, options }, 201);
  assert.deepEqual(declared.options, options);

  const messages = sent.map((payload) => ({ payload }));
  const pushed = await post("push", { queue, partition: "room-7", messages }, 201);
  assert.equal(pushed.pushed, 2);
  const listed = await call("GET", "/api/v1/ephemeral/queues", undefined, 200);
  const row = listed.queues.find((one) => one.queue === queue);
  assert.equal(row.depth, 2);
  assert.equal(row.tier, "declared");
  const path = `/api/v1/ephemeral/queues/${encodeURIComponent(queue)}/depth`;
  const depth = await call("GET", path, undefined, 200);
  assert.equal(depth.pending, 2);

  for (const group of ["widget", "audit"]) {
    const got = await pop({
      queue, partition: "room-7", batch: 10, wait: true, timeout: 2000, group,
    });
    assert.deepEqual(payloads(got), sent, group);
    const acks = got.messages.map(({ id }) => ({ id, status: "completed" }));
    assert.deepEqual(outcomes(await post("ack", { queue, group, acks })), ["acked", "acked"]);
  }

  await post("push", { queue, messages }, 201);
  assert.equal((await post("reset", { queue })).dropped, 2);
  const target = `/api/v1/ephemeral/queue/${encodeURIComponent(queue)}`;
  const deleted = await call("DELETE", target, undefined, 200);
  assert.deepEqual(deleted, { queue, deleted: true, declared: true });
  const missing = await call("GET", path, undefined, 404);
  assert.equal(missing.code, "ephemeral_queue_not_found");
}

async function requestReply(inbox) {
  const waiting = pop({ queue: inbox, wait: true, timeout: 10000, autoAck: true });
  await post("push", { queue: inbox, messages: [{ payload: { reply: 42 } }] }, 201);
  assert.deepEqual(payloads(await waiting), [{ reply: 42 }]);
}

const suffix = randomUUID();
await program(`node/presence ${suffix}`);
await requestReply(`node-inbox-${suffix}`);
console.log("ok");
