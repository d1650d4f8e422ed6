// heartbeats of one pusher, all of them to each of many groups
import { load } from './shared/wire.js';
import { checkPresence, preparePresence, presenceRoles } from './shared/presence.js';

export { pushHeartbeats, receiveHeartbeats } from './shared/presence.js';

export const options = load(presenceRoles());

export function setup() {
  preparePresence();
}

export function teardown() {
  checkPresence();
}
