// Requesters that push a request with the name of their inbox and wait there for the reply, and
// responders that take requests in batches and push the replies.
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { PATIENCE_MS, ack, ackOf, exchange, expect, finished, pop, push, pushOf, role, sized } from './wire.js';

const SIZE = sized({ requesters: 2, responders: 1, seconds: 1 }, { requesters: 16, responders: 4, seconds: 10 });
const REQUESTS = 'k6-requests';
const GROUP = 'responders';
// Requesters say here that they are done; each responder reads it as a group of its own.
const ENDS = 'k6-requests-ends';
const BATCH = 16;
// How long a responder waits for requests before it looks whether more will come.
const QUIET_MS = 200;
const TEXT = 'x'.repeat(200);

const ROUND_TRIP = new Trend('round_trip', true);
const REPLIES = new Counter('replies');

export function requestReplyRoles(requester, responder) {
  return {
    requesters: role(requester, SIZE.requesters, SIZE.seconds),
    responders: role(responder, SIZE.responders, SIZE.seconds),
  };
}

function endsOf(responder) {
  return pop(ENDS, { group: `responder-${responder}`, batch: 100, autoAck: true }).length;
}

// A group misses nothing that is pushed after its first pop.
export function prepareRequestReply() {
  for (let responder = 0; responder < SIZE.responders; responder += 1) {
    endsOf(responder);
  }
}

// Asks until the time is over; `ask` sends one request and returns the messages of the inbox.
function requestWith(ask) {
  const inbox = `k6-inbox-${exec.vu.idInTest}`;
  const end = Date.now() + SIZE.seconds * 1000;
  for (let n = 0; n === 0 || Date.now() < end; n += 1) {
    const sent = Date.now();
    const replies = ask(inbox, { replyTo: inbox, n, text: TEXT });
    ROUND_TRIP.add(Date.now() - sent);
    const isRight = replies.length === 1 && replies[0].payload.square === n * n;
    if (!expect('the reply is that to the request', isRight)) {
      throw new Error(`${inbox}: request ${n}, replies ${JSON.stringify(replies)}`);
    }
    REPLIES.add(1);
  }
  push(ENDS, [inbox]);
  finished();
}

// Request and wait in one round trip.
export function requestByExchange() {
  const wait = { wait: true, timeout: PATIENCE_MS, autoAck: true };
  requestWith((inbox, request) =>
    exchange({ pushes: [pushOf(REQUESTS, [request])], pop: { queue: inbox, ...wait } }),
  );
}

// Request and wait in two.
export function requestByPushAndPop() {
  requestWith((inbox, request) => {
    push(REQUESTS, [request]);
    return pop(inbox, { wait: true, timeout: PATIENCE_MS, autoAck: true });
  });
}

function replyTo({ payload }) {
  return pushOf(payload.replyTo, [{ square: payload.n * payload.n }]);
}

// Answers until all requesters are done; `turn` answers the requests that were taken before, and takes
// more.
function respondWith(turn) {
  const responder = exec.scenario.iterationInTest;
  // Far beyond the end of every requester that works.
  const deadline = Date.now() + SIZE.seconds * 1000 + 2 * PATIENCE_MS;
  let [taken, ends] = [[], 0];
  while (taken.length > 0 || ends < SIZE.requesters) {
    taken = turn(taken);
    if (taken.length === 0) {
      ends += endsOf(responder);
    }
    if (Date.now() > deadline) {
      expect('all requesters come to their end', false);
      return;
    }
  }
  finished();
}

const TAKE = { group: GROUP, batch: BATCH, wait: true, timeout: QUIET_MS };

// Acknowledges, answers and takes the next batch in one round trip.
export function respondByExchange() {
  respondWith((taken) => {
    const legs = { pop: { queue: REQUESTS, ...TAKE } };
    if (taken.length > 0) {
      legs.acks = [ackOf(REQUESTS, GROUP, taken)];
      legs.pushes = taken.map(replyTo);
    }
    return exchange(legs);
  });
}

// One round trip for each reply, one for the acks and one for the next batch.
export function respondByPushAndPop() {
  respondWith((taken) => {
    taken.forEach(({ payload }) => push(payload.replyTo, [{ square: payload.n * payload.n }]));
    if (taken.length > 0) {
      ack(REQUESTS, GROUP, taken);
    }
    return pop(REQUESTS, TAKE);
  });
}
