// request/reply, presence, workers with nacks, reads of the state: all at once
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { ack, expect, finished, get, getPlain, load, pop, push, role, sized } from './shared/wire.js';
import { prepareRequestReply, requestReplyRoles } from './shared/request_reply.js';
import { checkPresence, preparePresence, presenceRoles } from './shared/presence.js';

export { requestByExchange, respondByExchange } from './shared/request_reply.js';
export { pushHeartbeats, receiveHeartbeats } from './shared/presence.js';

const SIZE = sized({ workers: 2, seconds: 1 }, { workers: 8, seconds: 10 });
const JOBS = 'k6-jobs';
const GROUP = 'workers';
const BATCH = 10;
const DONE = new Counter('jobs_done');

export const options = load({
  ...requestReplyRoles('requestByExchange', 'respondByExchange'),
  ...presenceRoles(),
  workers: role('work', SIZE.workers, SIZE.seconds),
  watchers: role('watch', 1, SIZE.seconds),
});

export function setup() {
  prepareRequestReply();
  preparePresence();
}

export function teardown() {
  checkPresence();
  expect('no job is left', get(`queues/${JOBS}/depth?group=${GROUP}`).pending === 0);
}

// Does `step` until the time is over, at least once.
function untilTheEnd(step) {
  const end = Date.now() + SIZE.seconds * 1000;
  do {
    step();
  } while (Date.now() < end);
  finished();
}

// A batch in a partition of its own, of which the first job fails once.
export function work() {
  const partition = `worker-${exec.vu.idInTest}`;
  const take = { group: GROUP, partition, batch: BATCH };
  untilTheEnd(() => {
    push(JOBS, Array.from({ length: BATCH }, (_, n) => ({ n })), partition);
    const got = pop(JOBS, take);
    const isRight = (message, n) => message.payload.n === n && message.attempts === 1;
    if (!expect('the batch comes as it was pushed', got.length === BATCH && got.every(isRight))) {
      throw new Error(`${partition}: ${JSON.stringify(got)}`);
    }
    ack(JOBS, GROUP, got.slice(0, 1), 'retry');
    ack(JOBS, GROUP, got.slice(1));
    const again = pop(JOBS, take);
    expect('what failed comes again', again.length === 1 && again[0].id === got[0].id && again[0].attempts === 2);
    ack(JOBS, GROUP, again);
    DONE.add(BATCH);
  });
}

// What an operator looks at.
export function watch() {
  untilTheEnd(() => {
    const { queues, count } = get('queues');
    expect('the list is complete', queues.length === count);
    getPlain('/health');
    getPlain('/metrics/prometheus');
  });
}
