// One pusher of heartbeats, and groups that each receive all of them.
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';
import { PATIENCE_MS, configure, expect, finished, get, pop, push, role, sized } from './wire.js';

// All heartbeats of a run fit the queue: dropping one, which the policy would do, is a fault here.
const SIZE = sized(
  { groups: 3, heartbeats: 100, perSecond: 100 },
  { groups: 10, heartbeats: 1000, perSecond: 100 },
);
const SECONDS = SIZE.heartbeats / SIZE.perSecond;
const QUEUE = 'k6-presence';
const ROOMS = 4;

const DELIVERY = new Trend('heartbeat_delivery', true);
const RECEIVED = new Counter('heartbeats_received');

export function presenceRoles() {
  return {
    pusher: role('pushHeartbeats', 1, SECONDS),
    subscribers: role('receiveHeartbeats', SIZE.groups, SECONDS),
  };
}

function groupOf(number) {
  return `widget-${number}`;
}

// A group misses nothing that is pushed after its first pop.
export function preparePresence() {
  configure(QUEUE, { policy: 'dropOldest', maxLength: 10000, ttlSeconds: 600 });
  for (let number = 0; number < SIZE.groups; number += 1) {
    expect('nobody was there before', pop(QUEUE, { group: groupOf(number) }).length === 0);
  }
}

// At a fixed rate; one that is late does not wait for its turn again.
export function pushHeartbeats() {
  const begin = Date.now();
  for (let n = 0; n < SIZE.heartbeats; n += 1) {
    const early = begin + (n * 1000) / SIZE.perSecond - Date.now();
    if (early > 0) {
      sleep(early / 1000);
    }
    push(QUEUE, [{ n, at: Date.now(), user: `user-${n % 100}` }], `room-${n % ROOMS}`);
  }
  finished();
}

// Each room's heartbeats come in order, none twice, and all of them in the end.
export function receiveHeartbeats() {
  const group = groupOf(exec.scenario.iterationInTest);
  const next = Array.from({ length: ROOMS }, (_, room) => room);
  let count = 0;
  while (count < SIZE.heartbeats) {
    const got = pop(QUEUE, { group, batch: 100, wait: true, timeout: PATIENCE_MS, autoAck: true });
    if (!expect('heartbeats go on', got.length > 0)) {
      throw new Error(`${group}: ${count} of ${SIZE.heartbeats} heartbeats`);
    }
    for (const { payload, partition } of got) {
      const room = payload.n % ROOMS;
      expect('a room has its next heartbeat', partition === `room-${room}` && payload.n === next[room]);
      next[room] = payload.n + ROOMS;
      DELIVERY.add(Date.now() - payload.at);
    }
    count += got.length;
  }
  RECEIVED.add(count);
  finished();
}

export function checkPresence() {
  const depth = get(`queues/${QUEUE}/depth`);
  expect('every group is known', depth.groups.length === SIZE.groups);
  expect('every group saw all', depth.groups.every((one) => one.pending === 0 && one.skipped === 0));
}
