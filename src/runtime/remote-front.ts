/**
 * A front of another thread than the main one: takes the links that `ActorThreads.offerFront` sends over a port. Front
 * and actor threads.
 */
import type { MessagePort } from 'node:worker_threads';
import { Front } from './front.ts';
import { type LinkEnd, PortLink } from './port-link.ts';
import type { Placement } from './protocol.ts';
import { loopScheduler } from './scheduler.ts';

/** A link to one actor thread, on its way to a front. */
export interface FrontOffer {
  index: number;
  end: LinkEnd;
}

/**
 * Opens a front in a worker, over the port that `ActorThreads.offerFront` gave. Closing the port ends the supply of
 * new links; close the front too.
 * @param placement the same as the threads were started with
 */
export function openRemoteFront(port: MessagePort, placement: Placement): Front {
  const front = new Front(placement, loopScheduler);
  port.on('message', ({ index, end }: FrontOffer) => front.attach(index, new PortLink(end)));
  return front;
}
