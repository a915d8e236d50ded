/** Composition root: puts the process's parts together, starts them, stops them in reverse. Main thread. */

import { CaptureWriterClient } from '../actors/capture-writer/client.ts';
import type { HostOptions } from '../actors/host.ts';
import { PINS } from '../actors/supervision.ts';
import { compileDispatch } from './api/dispatch.ts';
import { apiRoutes } from './api/routes.ts';
import type { Config } from './config.ts';
import { CatalogueError, toApiBody, toMessagesBody } from './errors.ts';
import { CaptureControl } from './gateway/capture-control.ts';
import { CaptureQueue } from './gateway/capture-queue.ts';
import { Gateway } from './gateway/gateway.ts';
import { serveApi } from './http/api-port.ts';
import { type HttpServer, startServer } from './http/server.ts';
import { DRAIN_DEADLINE_MS } from './limits.ts';
import { ActorThreads } from './runtime/actor-threads.ts';
import { resolveModuleUrl } from './std/module-url.ts';

/** What runs after a start. */
export interface RunningUnderstudy {
  /** Without a trailing slash; null when the part was not asked for. */
  api_url: string | null;
  gateway_url: string | null;
  /** Drains and closes everything. Called once. */
  stop(): Promise<void>;
}

/** Starts the parts that are asked for. */
export async function startUnderstudy(
  config: Config,
  parts: { api: boolean; gateway: boolean },
): Promise<RunningUnderstudy> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    const gateway = parts.gateway ? await startGateway(config, stops) : null;
    const api = parts.api ? await startApi(config, stops) : null;
    return { api_url: urlOf(api), gateway_url: urlOf(gateway), stop };
  } catch (thrown) {
    await stop();
    throw thrown;
  }
}

async function startGateway(config: Config, stops: (() => Promise<void>)[]): Promise<HttpServer> {
  const capture = config.capture.enabled ? await startCapture(config, stops) : null;
  const control = new CaptureControl({
    version: config.version,
    db_path: config.capture.db,
    max_queue: config.capture.max_queue,
    writer: capture?.writer ?? null,
    queue: capture?.queue ?? null,
  });
  const gateway = new Gateway({
    bases: config.gateway,
    note: config.capture.note,
    capture: capture?.queue ?? null,
    admin: control,
  });
  stops.push(() => gateway.close());
  const server = await startServer({
    host: config.gateway.host,
    port: config.gateway.port,
    onStream: gateway.onStream,
    describeError: (status, message) =>
      JSON.stringify(
        toMessagesBody(new CatalogueError(status === 400 ? 'bad_framing' : 'unavailable', message)),
      ),
  });
  stops.push(() => server.drain(DRAIN_DEADLINE_MS));
  return server;
}

/** The actor threads with the capture writer on them, and the queue that feeds it. */
async function startCapture(
  config: Config,
  stops: (() => Promise<void>)[],
): Promise<{ writer: CaptureWriterClient; queue: CaptureQueue }> {
  const options: HostOptions = {
    capture: {
      db: config.capture.db,
      redact: config.capture.redact,
      max_decoded_bytes: config.capture.max_capture_bytes,
    },
  };
  const threads = new ActorThreads({
    entry: resolveModuleUrl('../actors/host.ts', import.meta.url),
    placement: { hosts: config.actor_threads, pins: PINS },
    options,
    onThreadDown: (index, reason, restartInMs) =>
      console.error(`actor thread ${index} ended (${reason}); it starts again in ${restartInMs} ms`),
  });
  stops.push(() => threads.stop());
  const front = await threads.openFront();
  const writer = new CaptureWriterClient(front);
  // A database that cannot be opened stops the start with its own words instead of every later batch.
  await writer.open();
  const queue = new CaptureQueue(writer, config.capture);
  stops.push(async () => {
    await queue.settle(DRAIN_DEADLINE_MS).catch(() => {});
    await writer.flush().catch(() => {});
    front.close();
  });
  return { writer, queue };
}

async function startApi(config: Config, stops: (() => Promise<void>)[]): Promise<HttpServer> {
  const dispatch = compileDispatch(apiRoutes({ version: config.version, probes: {} }), (error) =>
    console.error(error),
  );
  const server = await startServer({
    host: config.api.host,
    port: config.api.port,
    onStream: serveApi(dispatch, config.api.max_body_bytes),
    describeError: (status, message) =>
      JSON.stringify(toApiBody(new CatalogueError(status === 400 ? 'bad_framing' : 'unavailable', message))),
  });
  stops.push(() => server.drain(DRAIN_DEADLINE_MS));
  return server;
}

function urlOf(server: HttpServer | null): string | null {
  if (server === null) return null;
  const host = server.host.includes(':') ? `[${server.host}]` : server.host;
  return `http://${host}:${server.port}`;
}
