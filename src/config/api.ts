/** The API's listener and what it allows. Main thread. */
import { z } from 'zod';
import { DEFAULTS } from '../limits.ts';
import type { CertificateFiles } from '../std/certificate-files.ts';
import { API_PORT } from './agent-connection.ts';
import { CAPTURE_BYTES_MAX } from './capture.ts';
import { readTls } from './certificates.ts';
import {
  bytes,
  host,
  isOrigin,
  origin,
  path,
  port,
  splitList,
  type Values,
  type VariableTable,
  wholeNumber,
  wordFlag,
} from './values.ts';

/** Maximum number of origins in CORS_ALLOWED_ORIGINS. */
const CORS_ORIGINS_MAX = 1_000;

/** Origins that `CORS_ALLOW_DEV_ORIGINS` adds (document 4, "CORS"). */
const DEV_ORIGINS: readonly string[] = ['localhost', '127.0.0.1'].flatMap((name) =>
  [3000, 5173, 8000].map((devPort) => `http://${name}:${devPort}`),
);

export interface ApiConfig {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** null: without TLS. */
  readonly tls: CertificateFiles | null;
  readonly max_body_bytes: number;
  /** How long a server thread busy-polls after an answer before it sleeps; 0: no polling. */
  readonly busy_poll_us: number;
  readonly rate_limit_per_sec: number;
  readonly rate_limit_burst: number;
  /** Failed authentications per second from one address after its burst, before 429; 0: unlimited. */
  readonly auth_fail_rate_per_sec: number;
  /** Origin under which people reach the API and the dashboard, for example through a proxy; null: the listener's. */
  readonly public_url: string | null;
  /** Origins whose pages may call the API, lower case, without a trailing slash. */
  readonly cors_origins: readonly string[];
}

const origins = z
  .string()
  .transform((text) => splitList(text).map((origin) => origin.toLowerCase().replace(/\/$/, '')))
  .refine((list) => list.length <= CORS_ORIGINS_MAX && list.every(isOrigin))
  .describe(
    `must be up to ${CORS_ORIGINS_MAX} origins like https://app.example.com, separated by commas; no *, path or default port`,
  );

export const API_VARIABLES = {
  HOST: [host, '127.0.0.1'],
  PORT: [port, API_PORT],
  TLS_CERT: [path, undefined],
  TLS_KEY: [path, undefined],
  PUBLIC_URL: [origin('https://understudy.example.com'), undefined],
  API_AWAKE_US: [wholeNumber(0, 10_000, ' of microseconds'), '100'],
  MAX_BODY_BYTES: [bytes(CAPTURE_BYTES_MAX), String(DEFAULTS.MAX_BODY_BYTES)],
  RATE_LIMIT_PER_SEC: [wholeNumber(1, Number.MAX_SAFE_INTEGER), String(DEFAULTS.RATE_LIMIT_PER_SEC)],
  RATE_LIMIT_BURST: [wholeNumber(1, Number.MAX_SAFE_INTEGER), String(DEFAULTS.RATE_LIMIT_BURST)],
  AUTH_FAIL_RATE_PER_SEC: [wholeNumber(0, 1_000_000), String(DEFAULTS.AUTH_FAIL_RATE_PER_SEC)],
  CORS_ALLOWED_ORIGINS: [origins, undefined],
  CORS_ALLOW_DEV_ORIGINS: [wordFlag, 'false'],
} as const satisfies VariableTable;

export function readApi(v: Values<typeof API_VARIABLES>): ApiConfig {
  return Object.freeze({
    host: v.HOST,
    port: v.PORT,
    tls: readTls('api', v.TLS_CERT, v.TLS_KEY),
    public_url: v.PUBLIC_URL,
    max_body_bytes: v.MAX_BODY_BYTES,
    busy_poll_us: v.API_AWAKE_US,
    rate_limit_per_sec: v.RATE_LIMIT_PER_SEC,
    rate_limit_burst: v.RATE_LIMIT_BURST,
    auth_fail_rate_per_sec: v.AUTH_FAIL_RATE_PER_SEC,
    cors_origins: Object.freeze([
      ...(v.CORS_ALLOWED_ORIGINS ?? []),
      ...(v.CORS_ALLOW_DEV_ORIGINS ? DEV_ORIGINS : []),
    ]),
  });
}
