/** How the listeners of a server thread take requests, and where they are reached. Server threads. */
import type { Config } from '../config.ts';
import type { ServerOptions } from '../http/server.ts';
import { UPLOAD_PACE_WINDOW_MS } from '../limits.ts';

/** The least pace of an upload, where there is one. */
export function paceOf({ connections }: Config): Pick<ServerOptions, 'pace'> {
  const bytes_per_sec = connections.min_upload_bytes_per_sec;
  return bytes_per_sec === 0 ? {} : { pace: { bytes_per_sec, window_ms: UPLOAD_PACE_WINDOW_MS } };
}

/** An address as a URL without a trailing slash. */
export function urlOf({ host, port }: { host: string; port: number }): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
