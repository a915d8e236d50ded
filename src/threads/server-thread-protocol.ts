/** What the main thread and a further server thread say to each other, over comlink. Types. */
import type { MessagePort } from 'node:worker_threads';
import type { MappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import type { SharedMemory } from '../api/checks.ts';
import type { MetricsData } from '../api/metrics.ts';
import type { Config } from '../config.ts';
import type { CaptureQuestion } from '../domain/captured-run.ts';
import type { ErrorData } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/admin.ts';
import type { ThreadCapture } from '../gateway/capture/capture-control.ts';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import type { LinkEnd } from '../runtime/message-port-link.ts';
import type { Placement } from '../runtime/protocol.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import type { Parts } from './server-thread.ts';

/** What a server thread is started with; both ports are transferred. */
export interface ServerThreadTask {
  /** Ports of the listeners are the ones that the main thread's server got. */
  config: Config;
  parts: Parts;
  placement: Placement;
  /** Number of this thread's host of actors, where there is an API. */
  host: number;
  shared: SharedMemory;
  /** For what is captured; null where there is none that the capture process sees. */
  memory: MappedMemory | null;
  control: MessagePort;
  /** Leads to the main thread's RemoteServices. */
  services: MessagePort;
}

/** What the main thread may ask of a server thread; called through comlink. */
export interface ServerThreadControl extends ThreadCapture {
  connectHost(index: number, end: LinkEnd): void;
  /** Opens the host of actors, so that others can be linked with it. */
  openHost(): void;
  /** A link to another thread's server. */
  connectClient(end: LinkEnd): void;
  /** A link to another host. */
  connectPeer(index: number, end: LinkEnd): void;
  /** null while there is none. */
  hostStats(): HostStats | null;
  /** Resolves once it listens. */
  start(): Promise<void>;
  metrics(): Promise<MetricsData>;
  /** Listens for what the proxy has decrypted of one host, on loopback. */
  openRoute(route: ProxiedRoute): Promise<number>;
  /** A port to the student. */
  attachStudent(port: MessagePort, facts: StudentFacts): void;
  /** There is no student any more. */
  withdrawStudent(): void;
  /** Lets the requests finish; the actors go on. */
  drain(): Promise<void>;
  stop(): Promise<void>;
  /** Closes all sockets at once: the process is about to exit. */
  hangUp(): Promise<void>;
}

/** Outcome of an admin request or of a question about captures, as data. */
export type AdminAnswer = { ok: true; value: object } | { ok: false; error: ErrorData };

/** What a server thread may ask of the main thread; called through comlink. */
export interface RemoteServices {
  admin(name: keyof CaptureAdmin): Promise<AdminAnswer>;
  /** Asks the capture reader. */
  readCaptures(question: CaptureQuestion): Promise<AdminAnswer>;
  isReady(): Promise<boolean>;
  /** Runs a task of the stateless pool. */
  compute(task: string, input: unknown): Promise<unknown>;
  renderMetrics(): Promise<string>;
  /** The thread's host of actors lives again after a fault. */
  hostIsUp(): void;
}
