/** The part of autocannon 9.0.0 that the bench uses; the package has no types. */
declare module 'autocannon' {
  import type { EventEmitter } from 'node:events';

  /** One connection. autocannon calls `getRequestBuffer` before each request to get the bytes to send. */
  export interface Client {
    getRequestBuffer: () => Buffer;
  }

  export interface Options {
    url: string;
    method?: string;
    connections: number;
    /** Seconds. */
    duration: number;
    /** Seconds. */
    timeout?: number;
    /** Requests a second of all connections together. */
    overallRate?: number;
    /** Milliseconds between two samples. autocannon checks at each sample whether the run should end. */
    sampleInt?: number;
    setupClient?: (client: Client) => void;
  }

  export interface Result {
    errors: number;
    timeouts: number;
    non2xx: number;
  }

  /** Emits `response` (client, statusCode, bytes, milliseconds). */
  export default function autocannon(
    opts: Options,
    done: (error: Error | null, result: Result) => void,
  ): EventEmitter;
}
