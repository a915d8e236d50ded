/**
 * An actor client of another thread than the main one: takes the links that `ActorThreads.offerClient` sends over a port. Server
 * and actor threads.
 */
import type { MessagePort } from 'node:worker_threads';
import { ActorClient } from './actor-client.ts';
import { type LinkEnd, MessagePortLink } from './message-port-link.ts';
import type { Placement } from './protocol.ts';
import { loopScheduler } from './scheduler.ts';

/** A link to one actor thread, on its way to a client. */
export interface ClientOffer {
  index: number;
  end: LinkEnd;
}

/**
 * Opens a client in a worker, over the port that `ActorThreads.offerClient` gave. Closing the port ends the supply of
 * new links; close the client too.
 * @param placement the same as the threads were started with
 */
export function openRemoteClient(port: MessagePort, placement: Placement): ActorClient {
  const client = new ActorClient(placement, loopScheduler);
  port.on('message', ({ index, end }: ClientOffer) => client.attach(index, new MessagePortLink(end)));
  return client;
}
