// request/reply by push, pop and ack, a round trip each
import { load } from './shared/wire.js';
import { prepareRequestReply, requestReplyRoles } from './shared/request_reply.js';

export { requestByPushAndPop, respondByPushAndPop } from './shared/request_reply.js';

export const options = load(requestReplyRoles('requestByPushAndPop', 'respondByPushAndPop'));

export function setup() {
  prepareRequestReply();
}
