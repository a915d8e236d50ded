/**
 * An actor client on a thread other than the main thread. It receives links from `ActorThreads.offerClient` over a
 * port. Server and actor threads.
 */
import type { MessagePort } from 'node:worker_threads';
import { ActorClient } from './actor-client.ts';
import { type LinkEnd, MessagePortLink } from './message-port-link.ts';
import type { Placement } from './protocol.ts';
import { loopScheduler } from './scheduler.ts';

/** A link to one host, in transit to a client. */
export interface ClientOffer {
  index: number;
  end: LinkEnd;
}

/**
 * Opens a client in a worker, over the port of `ActorThreads.offerClient`. Closing the port ends the supply of new
 * links; close the client, too.
 * @param placement the same as that of the threads
 */
export function openRemoteClient(port: MessagePort, placement: Placement): ActorClient {
  const client = new ActorClient(placement, loopScheduler);
  port.on('message', ({ index, end }: ClientOffer) => client.attach(index, new MessagePortLink(end)));
  return client;
}
