/** The messages between the main thread and an additional server thread, over comlink. Types. */

import type { MessagePort } from 'node:worker_threads';
import type { MappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import type { SharedMemory } from '../api/checks.ts';
import type { Probed } from '../api/health.ts';
import type { MetricsData } from '../api/metrics.ts';
import type { Config } from '../config.ts';
import type { CaptureQuestion } from '../domain/captured-run.ts';
import type { ErrorData } from '../errors.ts';
import type { CaptureAdmin, ThreadCapture } from '../gateway/capture/capture-control.ts';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import type { LinkEnd } from '../runtime/message-port-link.ts';
import type { Placement } from '../runtime/protocol.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import type { Parts } from './server-thread.ts';

/** The input of a server thread at its start; `control` and `services` are transferred. */
export interface ServerThreadTask {
  /** The configuration, with the ports on which the main thread's server listens. */
  config: Config;
  parts: Parts;
  placement: Placement;
  /** Number of this thread's host of actors, if there is an API. */
  host: number;
  shared: SharedMemory;
  /** Orders exchanges across server threads (gateway/capture/arrival-counter.ts). */
  arrivals: SharedArrayBuffer;
  queue_places: SharedArrayBuffer;
  /** Memory for captured exchanges; null without capture, or if the capture process cannot map it. */
  memory: MappedMemory | null;
  control: MessagePort;
  /** Port to the main thread's RemoteServices. */
  services: MessagePort;
}

/** The main thread's calls to a server thread, through comlink. */
export interface ServerThreadControl extends Omit<ThreadCapture, 'settle'> {
  /**
   * Waits until the queued exchanges are stored.
   * @returns the reason of a failure as data, because an error loses its class between threads; null: no failure
   */
  settle(deadlineMs: number): Promise<ErrorData | null>;
  connectHost(index: number, end: LinkEnd): void;
  /** Opens the host of actors, so that clients and other hosts can connect to it. */
  openHost(): void;
  /** Connects a client on another thread to the host. */
  connectClient(end: LinkEnd): void;
  /** Connects the host to another host. */
  connectPeer(index: number, end: LinkEnd): void;
  /** Returns the counters of the host of actors; null while there is no host. */
  hostStats(): HostStats | null;
  /** Starts the listeners. Resolves when they listen. */
  start(): Promise<void>;
  metrics(): Promise<MetricsData>;
  /** Listens on loopback for decrypted requests of the proxy to one host. */
  openRoute(route: ProxiedRoute): Promise<number>;
  /** Closes the listener for a host that has no tunnel any more. */
  closeRoute(authority: string): Promise<void>;
  /** Attaches a port to the student. */
  attachStudent(port: MessagePort, facts: StudentFacts): void;
  /**
   * Records that there is no student now.
   * @param isExpected whether a student is being loaded
   */
  withdrawStudent(isExpected: boolean): void;
  /** Waits for the requests in progress, and accepts no more. The actors continue. */
  drain(): Promise<void>;
  stop(): Promise<void>;
  /** Closes all sockets at once: the process is about to exit. */
  hangUp(): Promise<void>;
}

/** Outcome of an admin request or of a question about captures, as data. */
export type AdminAnswer = { ok: true; value: object } | { ok: false; error: ErrorData };

/** A server thread's calls to the main thread, through comlink. */
export interface RemoteServices {
  admin(name: keyof CaptureAdmin): Promise<AdminAnswer>;
  /** Asks the capture reader. */
  readCaptures(question: CaptureQuestion): Promise<AdminAnswer>;
  isReady(): Promise<Probed>;
  /** Runs a task of the stateless pool. */
  compute(task: string, input: unknown): Promise<unknown>;
  renderMetrics(): Promise<string>;
  /** Reports that the thread's host of actors has restarted after a fault. */
  hostIsUp(): void;
}
