/** Settings of the whole process: data, threads and connections. Main thread. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { DEFAULTS, DRAIN_DEADLINE_MS } from '../limits.ts';
import { readKeyFile } from '../std/key-file.ts';
import { countUsableCores } from '../std/usable-cores.ts';
import { ConfigError } from './config-error.ts';
import { path, splitList, type Values, type VariableTable, wholeNumber } from './values.ts';

/** Maximum number of threads of each kind. More threads make no machine faster. */
export const THREADS_MAX = 64;

/**
 * Numbers of threads that `auto` stands for, by the least number of usable cores. Only the rows of one and two cores were
 * measured. In the other rows, three of four cores serve, a second actor thread keeps searches away from capture, and
 * embedding gets one thread for eight cores (bench/notes/cores.md).
 */
const THREADS_BY_CORES: readonly { cores: number; server: number; actor: number; compute: number }[] = [
  { cores: 1, server: 1, actor: 1, compute: 1 },
  { cores: 2, server: 2, actor: 1, compute: 1 },
  { cores: 4, server: 3, actor: 2, compute: 1 },
  { cores: 8, server: 6, actor: 2, compute: 1 },
  { cores: 16, server: 12, actor: 2, compute: 2 },
  { cores: 32, server: 24, actor: 3, compute: 4 },
  { cores: 64, server: 48, actor: 4, compute: 8 },
];

/** Maximum number of days: a hundred years. */
const RETENTION_DAYS_MAX = 36_500;

/** Maximum number of names in ALLOWED_HOSTS. */
const ALLOWED_HOSTS_MAX = 1_000;

/**
 * Maximum STOP_NOTICE_MS. A start waits twice the drain's deadline for a process that ends (CLAIM_PATIENCE_MS), so the
 * notice may take as long as the drain.
 */
const STOP_NOTICE_MS_MAX = DRAIN_DEADLINE_MS;

/** The HTTP server: uWebSockets.js, or Node's own server on platforms for which that has no binary. */
const HTTP_SERVERS = ['auto', 'uwebsockets', 'node'] as const;

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

export interface ServiceConfig {
  readonly log_level: (typeof LOG_LEVELS)[number];
  /** `auto`: uWebSockets.js if it has a binary for the platform. */
  readonly http_server: (typeof HTTP_SERVERS)[number];
  /** How long the readiness routes report a stop before the listeners close; 0: the listeners close at once. */
  readonly stop_notice_ms: number;
  /** Absolute. */
  readonly data_dir: string;
  /** Encrypts stored content; null: it is stored in the clear. Secret: never print. */
  readonly data_key: Uint8Array | null;
  /** Days after which the service deletes content; null: never. */
  readonly retention_days: {
    readonly runs: number | null;
    readonly traces: number | null;
    readonly findings: number | null;
    readonly live_events: number | null;
    readonly captures: number | null;
  };
  /** Cores that the process may use. */
  readonly cores: number;
  readonly actor_threads: number;
  readonly server_threads: number;
  /** Threads of the embedding pool; they are started when the first text arrives. */
  readonly compute_threads: number;
  readonly connections: {
    /** Maximum number on both ports together; 0: no cap; null: as many as the descriptors permit. */
    readonly total: number | null;
    /** Maximum number from one address; 0: no cap; null: a default, only for public addresses. */
    readonly by_address: number | null;
    /** Minimum rate of a request's body; 0: no minimum. */
    readonly min_upload_bytes_per_sec: number;
  };
}

const days = wholeNumber(0, RETENTION_DAYS_MAX, ' of days');

const threads = z
  .union([z.literal('auto'), wholeNumber(1, THREADS_MAX)])
  .describe(`must be auto, or a whole number from 1 to ${THREADS_MAX}`);

const hostNames = z
  .string()
  .transform((text) => splitList(text).map((name) => name.toLowerCase()))
  .refine(
    (list) =>
      list.length <= ALLOWED_HOSTS_MAX &&
      list.every((name) => name === '*' || /^(?=.{1,253}$)[a-z\d_]([a-z\d._-]*[a-z\d_])?\.?$/.test(name)),
  )
  .describe(
    `must be up to ${ALLOWED_HOSTS_MAX} host names like understudy.example.com, without a port, separated by commas; * allows any name`,
  );

const level = z.enum(LOG_LEVELS).describe(`must be one of ${LOG_LEVELS.join(', ')}`);

const httpServer = z.enum(HTTP_SERVERS).describe(`must be one of ${HTTP_SERVERS.join(', ')}`);

export const SERVICE_VARIABLES = {
  LOG_LEVEL: [level, 'info'],
  HTTP_SERVER: [httpServer, 'auto'],
  STOP_NOTICE_MS: [wholeNumber(0, STOP_NOTICE_MS_MAX, ' of milliseconds'), '0'],
  DATA_DIR: [path, './data'],
  DATA_KEY_FILE: [path, undefined],
  RETENTION_DAYS: [days, '0'],
  RETENTION_DAYS_RUNS: [days, undefined],
  RETENTION_DAYS_TRACES: [days, undefined],
  RETENTION_DAYS_FINDINGS: [days, undefined],
  RETENTION_DAYS_LIVE_EVENTS: [days, undefined],
  RETENTION_DAYS_CAPTURES: [days, undefined],
  ACTOR_THREADS: [threads, 'auto'],
  SERVER_THREADS: [threads, undefined],
  // The former name of SERVER_THREADS, which the contract's documents use.
  FRONT_THREADS: [threads, 'auto'],
  COMPUTE_THREADS: [threads, 'auto'],
  ALLOWED_HOSTS: [hostNames, undefined],
  MAX_CONNECTIONS: [wholeNumber(0, 1_000_000, ' of connections'), undefined],
  MAX_CONNECTIONS_PER_ADDRESS: [wholeNumber(0, 1_000_000, ' of connections'), undefined],
  MIN_UPLOAD_BYTES_PER_SEC: [
    wholeNumber(0, 1_000_000, ' of bytes per second'),
    String(DEFAULTS.MIN_UPLOAD_BYTES_PER_SEC),
  ],
} as const satisfies VariableTable;

export function readService(v: Values<typeof SERVICE_VARIABLES>): ServiceConfig {
  const cores = countUsableCores();
  const chosen = chooseThreads(cores);
  const or = (given: number | 'auto', auto: number) => (given === 'auto' ? auto : given);
  return {
    log_level: v.LOG_LEVEL,
    http_server: v.HTTP_SERVER,
    stop_notice_ms: v.STOP_NOTICE_MS,
    data_dir: resolve(v.DATA_DIR),
    data_key: readDataKey(v.DATA_KEY_FILE),
    retention_days: Object.freeze({
      runs: (v.RETENTION_DAYS_RUNS ?? v.RETENTION_DAYS) || null,
      traces: (v.RETENTION_DAYS_TRACES ?? v.RETENTION_DAYS) || null,
      findings: (v.RETENTION_DAYS_FINDINGS ?? v.RETENTION_DAYS) || null,
      live_events: (v.RETENTION_DAYS_LIVE_EVENTS ?? v.RETENTION_DAYS) || null,
      captures: (v.RETENTION_DAYS_CAPTURES ?? v.RETENTION_DAYS) || null,
    }),
    cores,
    actor_threads: or(v.ACTOR_THREADS, chosen.actor),
    server_threads: or(v.SERVER_THREADS ?? v.FRONT_THREADS, chosen.server),
    compute_threads: or(v.COMPUTE_THREADS, chosen.compute),
    connections: Object.freeze({
      total: v.MAX_CONNECTIONS,
      by_address: v.MAX_CONNECTIONS_PER_ADDRESS,
      min_upload_bytes_per_sec: v.MIN_UPLOAD_BYTES_PER_SEC,
    }),
  };
}

/** Chooses the numbers of threads for the value `auto`. @param cores number of usable cores, at least 1 */
export function chooseThreads(cores: number): { server: number; actor: number; compute: number } {
  return THREADS_BY_CORES.findLast((row) => row.cores <= cores)!;
}

/** Reads the data key; null without a file. @throws ConfigError if the file is not a key, or if other users may read it */
function readDataKey(file: string | null): Uint8Array | null {
  if (file === null) return null;
  try {
    return readKeyFile(resolve(file));
  } catch (thrown) {
    throw new ConfigError('DATA_KEY_FILE', file, (thrown as Error).message);
  }
}
