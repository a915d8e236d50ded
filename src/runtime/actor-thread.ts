/**
 * Runs an ActorHost on an actor thread, with links to the clients and to the other actor threads. The main thread
 * controls it over comlink. Actor threads.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { createDeferred } from '../std/deferred.ts';
import type { Asker } from './actor-client.ts';
import { callAdapter, type EffectAdapter, settleWith } from './effect-adapter.ts';
import { ActorHost, type HostParts } from './host.ts';
import type { HostStats } from './host-stats.ts';
import { type LinkEnd, MessagePortLink } from './message-port-link.ts';
import type { Placement } from './protocol.ts';
import { openRemoteClient } from './remote-actor-client.ts';
import { loopScheduler } from './scheduler.ts';

/** The input of a thread at its start; its ports are transferred. */
export interface ThreadTask<Options = unknown> {
  /** The number of the thread's host in the placement. */
  index: number;
  placement: Placement;
  /** The port on which the thread offers its ThreadControl. */
  control: MessagePort;
  /** The port from `ActorThreads.offerClient`, with which the thread's adapters ask actors of any thread. */
  client: MessagePort;
  /** A comlink port to the stateless pool; null without a pool. */
  compute: MessagePort | null;
  /** Plain data for the thread's composition root: paths and switches. */
  options: Options;
}

/** Runs a task of the stateless pool; input and value are plain data. */
export type ComputeTask = (task: string, input: unknown) => Promise<unknown>;

/** The calls of the main thread, through comlink. */
export interface ThreadControl {
  /** Returns the thread's index, which shows that the thread is not blocked. */
  ping(): number;
  connectClient(end: LinkEnd): void;
  connectPeer(index: number, end: LinkEnd): void;
  /** Drains the host (see ActorHost.drain). @returns the number of messages handled so far */
  drain(): Promise<number>;
  stats(): HostStats;
  /** Ends the host and the task. */
  stop(): void;
  /** Makes the thread crash; for tests. */
  crash(): void;
}

/** The services that the thread offers to its adapters. */
export interface ThreadServices {
  asker: Asker;
  /** null: there is no stateless pool. */
  compute: ComputeTask | null;
}

/** The parts that the thread's entry module provides. {@link runActorThread} makes the other HostParts. */
interface ThreadParts extends Pick<HostParts, 'kinds' | 'journal' | 'report'> {
  adapters:
    | Readonly<Record<string, EffectAdapter>>
    | ((services: ThreadServices) => Readonly<Record<string, EffectAdapter>>);
  /** Called once after the host has ended. */
  dispose(): Promise<void>;
}

/** Runs the thread. Resolves when `stop` was called and everything is released. */
export async function runActorThread(task: ThreadTask, parts: ThreadParts): Promise<void> {
  const stopped = createDeferred();
  const compute = task.compute === null ? null : Comlink.wrap<ComputeTask>(nodeEndpoint(task.compute));
  const asker = openRemoteClient(task.client, task.placement);
  const adapters = typeof parts.adapters === 'function' ? parts.adapters({ asker, compute }) : parts.adapters;
  const host = new ActorHost({
    index: task.index,
    placement: task.placement,
    kinds: parts.kinds,
    scheduler: loopScheduler,
    journal: parts.journal,
    performIo: (adapter, operation, input, done) =>
      callAdapter(adapters[adapter], adapter, operation, input, done),
    performCompute: (name, input, done) => {
      settleWith(
        compute === null ? Promise.reject(new TypeError('no compute pool')) : compute(name, input),
        done,
      );
    },
    report: parts.report,
  });
  const control: ThreadControl = {
    ping: () => task.index,
    connectClient: (end) => host.attachClient(new MessagePortLink(end)),
    connectPeer: (index, end) => host.attachPeer(index, new MessagePortLink(end)),
    drain: () => host.drain(),
    stats: () => host.stats(),
    stop: () => stopped.resolve(),
    crash: () => {
      setImmediate(() => {
        throw new Error('crashed on request');
      });
    },
  };
  Comlink.expose(control, nodeEndpoint(task.control));
  await stopped.promise;
  host.close();
  await parts.dispose();
  asker.close();
  task.client.close();
  // The thread ends in a later tick, so that the answer to `stop` is still sent.
  setImmediate(() => {
    task.control.close();
    task.compute?.close();
  });
}
