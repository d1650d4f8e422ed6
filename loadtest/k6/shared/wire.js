// The requests that scripts send, each with a check of its answer, and what every script's run has in
// common.
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const BASE = `${__ENV.BROKER}/api/v1/ephemeral`;
const JSON_BODY = { headers: { 'Content-Type': 'application/json' } };
const FINISHED = new Counter('roles_finished');

// How long a pop waits for what must come, in milliseconds: only a fault makes it wait that long.
export const PATIENCE_MS = 20000;

// The size that the launcher asks for.
export function sized(tiny, full) {
  return __ENV.SIZE === 'tiny' ? tiny : full;
}

// One scenario of k6: so many virtual users that run `exec` once. Each loops by itself, so that it
// knows when its work is done.
export function role(exec, users, seconds) {
  return { executor: 'per-vu-iterations', exec, vus: users, iterations: 1, maxDuration: `${seconds + 60}s` };
}

// The options of a script. A run is good when all checks hold, no request failed and every virtual
// user came to its end: an exception alone would not fail k6. The first check that does not hold ends
// it, because others wait for what will not come.
export function load(scenarios) {
  const users = Object.values(scenarios).reduce((sum, scenario) => sum + scenario.vus, 0);
  return {
    scenarios,
    thresholds: {
      checks: [{ threshold: 'rate==1', abortOnFail: true }],
      http_req_failed: ['rate==0'],
      roles_finished: [`count==${users}`],
    },
  };
}

// To be called by a virtual user that has done all its work.
export function finished() {
  FINISHED.add(1);
}

// Fails the run with a text when `holds` is false.
export function expect(what, holds) {
  check(holds, { [what]: (value) => value === true });
  return holds;
}

// The body of an answer; throws where its status is another one.
function body(what, answer, status) {
  if (!expect(`${what} answers ${status}`, answer.status === status)) {
    throw new Error(`${what}: ${answer.status} ${answer.error} ${answer.body}`);
  }
  return answer.json();
}

export function get(path) {
  return body(path.split('?')[0], http.get(`${BASE}/${path}`, { tags: { name: path.split('?')[0] } }), 200);
}

// A route outside of the class whose answer need not be JSON.
export function getPlain(path) {
  expect(`${path} answers 200`, http.get(`${__ENV.BROKER}${path}`).status === 200);
}

function post(verb, content, status) {
  return body(verb, http.post(`${BASE}/${verb}`, JSON.stringify(content), JSON_BODY), status);
}

export function configure(queue, options) {
  const answer = post('configure', { queue, options }, 201);
  expect('the queue is declared', answer.declared);
}

// The body of a push, as a request of its own and as a leg of an exchange.
export function pushOf(queue, payloads, partition = null) {
  return { queue, partition, messages: payloads.map((payload) => ({ payload })) };
}

export function push(queue, payloads, partition = null) {
  const answer = post('push', pushOf(queue, payloads, partition), 201);
  expect('all messages are stored', answer.pushed === payloads.length);
}

// The messages; `parameters` are those of the query.
export function pop(queue, parameters) {
  const query = Object.entries(parameters).map(([name, value]) => `&${name}=${value}`);
  return get(`pop?queue=${queue}${query.join('')}`).messages;
}

// The body of an ack, as a request of its own and as a leg of an exchange.
export function ackOf(queue, group, messages, status = 'completed') {
  return { queue, group, acks: messages.map((message) => ({ id: message.id, status })) };
}

export function ack(queue, group, messages, status = 'completed') {
  const answer = post('ack', ackOf(queue, group, messages, status), 200);
  expectOutcomes(answer, messages, status === 'completed' ? 'acked' : 'redelivered');
}

function expectOutcomes(answer, messages, outcome) {
  const isRight = (result, at) => result.id === messages[at].id && result.outcome === outcome;
  const { results } = answer;
  expect('every ack takes effect', results.length === messages.length && results.every(isRight));
}

// One round trip of several legs; all of them must succeed. The messages of its pop, or none.
export function exchange(legs) {
  const answer = post('exchange', legs, 200);
  const { acks = [], pushes = [] } = legs;
  const areStored = answer.pushes.every(
    (leg, at) => leg.status === 201 && leg.pushed === pushes[at].messages.length,
  );
  expect('all pushes of an exchange are stored', areStored && answer.pushes.length === pushes.length);
  expect('all acks of an exchange are answered', answer.acks.length === acks.length);
  answer.acks.forEach((leg, at) => expectOutcomes(leg, acks[at].acks, 'acked'));
  if (!legs.pop) {
    return [];
  }
  expect('the pop of an exchange is served', answer.pop.status === 200);
  return answer.pop.messages;
}
