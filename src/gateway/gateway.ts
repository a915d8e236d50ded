/**
 * The gateway's server thread: takes each request of the listener and decides what it is — an admin request, one that is
 * refused, or an exchange to forward. Server threads.
 */

import { CatalogueError } from '../errors.ts';
import { AllowedHosts } from '../http/allowed-hosts.ts';
import type { HttpStream } from '../http/http-stream.ts';
import { classifyRequest } from '../providers/classify.ts';
import { answerAdmin, type CaptureAdmin, isAdminPath } from './admin.ts';
import type { CaptureQueue } from './capture/capture-queue.ts';
import { Forward, type ForwardContext, replyError } from './forward.ts';
import type { Relegation } from './relegation/relegation.ts';
import { type RouteBases, RouteTable } from './route-table.ts';
import { UpstreamPools } from './upstream/upstream-pools.ts';

export interface GatewayOptions {
  bases: RouteBases;
  note: string;
  /** null: nothing is captured (the benchmark's baseline). */
  capture: CaptureQueue | null;
  admin: CaptureAdmin;
  /** null or left out: no step is shown to a student. */
  relegation?: Relegation | null;
  /** Host names of its own under which the admin routes answer, beside those that every network has. */
  allowed_hosts?: readonly string[];
}

export class Gateway {
  readonly routes: RouteTable;
  readonly #pools = new UpstreamPools();
  readonly #context: ForwardContext;
  readonly #admin: CaptureAdmin;
  readonly #relegation: Relegation | null;
  readonly #hosts: AllowedHosts;

  constructor(options: GatewayOptions) {
    this.routes = new RouteTable(options.bases, this.#pools);
    this.#context = { capture: options.capture, note: options.note };
    this.#admin = options.admin;
    this.#relegation = options.relegation ?? null;
    this.#hosts = new AllowedHosts(options.allowed_hosts ?? []);
  }

  /** The listener's handler. */
  readonly onStream = (stream: HttpStream): void => {
    const { head } = stream;
    if (isAdminPath(head.path)) {
      void answerAdmin(stream, this.#admin, this.routes.rows, this.#hosts);
      return;
    }
    // A tunnel is nobody's to open here; with a path for its target the parser takes it for any other method.
    if (head.method === 'CONNECT') {
      replyError(stream, new CatalogueError('method_not_allowed'));
      return;
    }
    if (isWebSocketUpgrade(head.headers)) {
      replyError(stream, new CatalogueError('upgrade_required'));
      return;
    }
    const destination = this.routes.resolve(head.path);
    if (destination === null) {
      replyError(
        stream,
        new CatalogueError(
          'bad_region',
          'The path must be /bedrock/{region}/…, with a region such as us-east-1',
        ),
      );
      return;
    }
    const requestClass = classifyRequest(destination.route, head.method, destination.path);
    if (this.#relegation?.take(this.#context, stream, destination, requestClass)) return;
    new Forward(this.#context, stream, destination, requestClass).start();
  };

  /** Ends every upstream connection. */
  async close(): Promise<void> {
    this.#pools.close();
  }
}

/** RFC 9110 section 7.8: the token counts when Connection names it, too. */
function isWebSocketUpgrade(headers: readonly string[]): boolean {
  let isAsked = false;
  let isNominated = false;
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === 'upgrade') isAsked ||= headers[at + 1]!.toLowerCase() === 'websocket';
    else if (headers[at] === 'connection') isNominated ||= headers[at + 1]!.toLowerCase().includes('upgrade');
  }
  return isAsked && isNominated;
}
