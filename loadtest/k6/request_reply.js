// request/reply by exchange: one round trip for each turn
import { load } from './shared/wire.js';
import { prepareRequestReply, requestReplyRoles } from './shared/request_reply.js';

export { requestByExchange, respondByExchange } from './shared/request_reply.js';

export const options = load(requestReplyRoles('requestByExchange', 'respondByExchange'));

export function setup() {
  prepareRequestReply();
}
