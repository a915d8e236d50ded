/**
 * Environment and flags → one frozen Config. The service's only reader of `process.env`; everything else is handed its part
 * of the Config. A bad value ends the start with one line. Main thread, before anything else runs.
 *
 * Outside the service read it: what is loaded into agents' processes (src/client/environment.ts, src/label/environment.ts), the
 * container's health check, and src/cli/understudy.mjs, which must choose V8's cache before it loads any of this.
 */

import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { foldEmail } from './domain/account.ts';
import { isRunHeader } from './domain/client-run.ts';
import { RELEGATION_WIRES, type RelegationWire } from './domain/exchange.ts';
import { joinTracesPath, readPairs } from './domain/otel-settings.ts';
import { DEFAULT_PLAN_CAPS, type PlanCaps } from './domain/plans.ts';
import type { Prices } from './domain/price.ts';
import { DEFAULT_HOSTS_WORD, type ProxyHost, readProxyHosts } from './domain/proxy-host.ts';
import { listRouteSecrets, readUpstreamRoutes, type UpstreamRoute } from './domain/upstream-route.ts';
import {
  ALLOWED_HOSTS_MAX,
  CAPTURE_BYTES_MAX,
  CORS_ORIGINS_MAX,
  DEFAULTS,
  HTTP_HEAD_BYTES,
  MODEL_CHARACTERS,
  NOTE_CHARACTERS,
  OPERATORS_MAX,
  PRICED_MODELS_MAX,
  RETENTION_DAYS_MAX,
  ROUTES_FILE_BYTES,
  RUN_HEADERS_MAX,
  STATIC_KEYS_MAX,
  STUDENT_TIMEOUT_MAX_MS,
  THREADS_BY_CORES,
  THREADS_MAX,
  UPSTREAM_CA_BYTES,
} from './limits.ts';
import { type CertificateError, type CertificateFiles, checkCertificate } from './std/certificate-files.ts';
import { readKeyFile } from './std/key-file.ts';
import { countUsableCores } from './std/usable-cores.ts';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** Everything an operator decides. Frozen, parts included. */
export interface Config {
  readonly version: string;
  readonly log_level: (typeof LOG_LEVELS)[number];
  /** Absolute. */
  readonly data_dir: string;
  /** Seals what is kept; null: it stands as it is. Secret: never print. */
  readonly data_key: Uint8Array | null;
  /** Days after which the service deletes; null: it keeps them. */
  readonly retention_days: {
    readonly runs: number | null;
    readonly traces: number | null;
    readonly findings: number | null;
    readonly live_events: number | null;
    readonly captures: number | null;
  };
  /** That the process may use. */
  readonly cores: number;
  readonly actor_threads: number;
  readonly server_threads: number;
  /** Of the pool that embeds; they start when something is to be embedded. */
  readonly compute_threads: number;
  /** Names that both ports answer under without a credential, beside those of every network; lower case, `*` is any. */
  readonly allowed_hosts: readonly string[];
  /** Of both ports together. */
  readonly connections: {
    /** 0: no cap; null: what the descriptors are enough for. */
    readonly total: number | null;
    /** 0: no cap; null: a default for public addresses alone. */
    readonly by_address: number | null;
    /** What of a request's body has to come; 0: nothing. */
    readonly min_upload_bytes_per_sec: number;
  };
  readonly api: {
    readonly host: string;
    /** 0: one that the system picks. */
    readonly port: number;
    /** null: without TLS. */
    readonly tls: CertificateFiles | null;
    readonly max_body_bytes: number;
    /** How long a server thread busy-polls after an answer before it sleeps; 0: not at all. */
    readonly busy_poll_us: number;
    readonly rate_limit_per_sec: number;
    readonly rate_limit_burst: number;
    /** Failed authentications a second from one address, behind its burst, before they get 429; 0: they are not limited. */
    readonly auth_fail_rate_per_sec: number;
    /** Where people reach the API and the dashboard, a proxy in front included: an origin; null: where it listens. */
    readonly public_url: string | null;
    /** Origins whose pages may call the API, lower case, without a trailing slash. */
    readonly cors_origins: readonly string[];
  };
  /** Secrets: never print. */
  readonly auth: {
    /** The operator's own keys. */
    readonly static_keys: readonly string[];
    /** HS256, as UTF-8 bytes; null: none was given. */
    readonly jwt_secret: string | null;
    /** Where the identity provider publishes its keys; null: none. Goes before `jwt_secret`. */
    readonly jwks_url: string | null;
    /**
     * What a token must name; null: anything. With `jwks_url` null only where the operator wrote `any`: the publisher of
     * the keys also signs tokens of other applications with them.
     */
    readonly jwt_issuer: string | null;
    readonly jwt_audience: string | null;
  };
  readonly billing: {
    /** Secrets, null when unset: never print. */
    readonly secret_key: string | null;
    readonly webhook_secret: string | null;
    /** null: the same as the other. */
    readonly webhook_thin_secret: string | null;
    /** null: the processor's own. */
    readonly api_base: string | null;
    /** Interventions a month by plan; null is no cap. */
    readonly plan_caps: PlanCaps;
  };
  /** A model that writes patterns; null: the words that are found without one stay. */
  readonly distill_model: {
    /** No trailing slash. */
    readonly url: string;
    readonly model: string;
    /** Secret, '' for none: never print. */
    readonly key: string;
  } | null;
  readonly embedding: {
    /** Folder of an ONNX export, absolute; null: the model that ships. */
    readonly model_dir: string | null;
    /** An OpenAI-compatible service in the model's place; null: none. */
    readonly remote: {
      /** No trailing slash. */
      readonly url: string;
      readonly model: string;
      /** Secret, '' for none: never print. */
      readonly key: string;
    } | null;
  };
  readonly gateway: {
    readonly host: string;
    readonly port: number;
    /** null: without TLS. */
    readonly tls: CertificateFiles | null;
    /** No trailing slash; the client's path is put behind it as it is. The same holds for the other two. */
    readonly upstream_base: string;
    /** Label on what the default upstream answers. */
    readonly provider: string;
    readonly gemini_base: string;
    /** `{region}` stands where the region goes, anywhere in it. */
    readonly bedrock_base: string;
    /** Under prefixes of their own, longest first. Their headers are secret: never print. */
    readonly routes: readonly UpstreamRoute[];
    /** What an answer must not show of those headers. Secret. */
    readonly route_secrets: readonly string[];
    /** Certificate authorities that upstreams may have besides the usual ones, PEM; null: none. */
    readonly upstream_ca: string | null;
  };
  /** Where captured turns go as spans; null: nowhere. */
  readonly otel: {
    /** The whole address of the signal. */
    readonly url: string;
    readonly encoding: 'protobuf' | 'json';
    /** Secret: never print. */
    readonly headers: Readonly<Record<string, string>>;
    readonly timeout_ms: number;
    readonly compresses: boolean;
    /** Of the resource. */
    readonly attributes: Readonly<Record<string, string>>;
    readonly has_content: boolean;
  } | null;
  /** For `HTTPS_PROXY`; null: there is none. */
  readonly proxy: {
    readonly host: string;
    readonly port: number;
    /** Whose tunnels are opened up. */
    readonly hosts: readonly ProxyHost[];
    /** Clients must show one of them; none: nobody is asked. Secret: never print. */
    readonly keys: readonly string[];
    /** Where all other tunnels may lead. */
    readonly blind: 'all' | 'public' | 'off';
  } | null;
  readonly capture: {
    /** false: forward only. For measuring what capture costs. */
    readonly enabled: boolean;
    /** Absolute path of the capture database. */
    readonly db: string;
    /** '' for none. */
    readonly note: string;
    /** Headers that name a request's run where x-svc-run does not; lower case. */
    readonly run_headers: readonly string[];
    /** Keys inside bodies are masked in the stored copy. */
    readonly redact: boolean;
    readonly max_queue: number;
    readonly max_queue_bytes: number;
    /** Each body. */
    readonly max_capture_bytes: number;
    /** Dollars a million tokens, by model; null: what conversations cost is not told. */
    readonly prices: Prices | null;
  };
  /** Who may read what is captured, besides the terminal's link and the static keys. */
  readonly operators: {
    /** As `foldEmail` has them. */
    readonly emails: readonly string[];
    /** The organization whose owners and admins may; null: none. */
    readonly org: string | null;
  };
  /** For the service behind a student of kind `http`, also while it is distilled; secret, '' for none: never print. */
  readonly student_key: string;
  /** Whose steps are relegated and taught. */
  readonly relegation_wires: readonly RelegationWire[];
  /** Who may answer in the upstream's place; null: nobody, relegation is off. */
  readonly relegation: {
    /** Absolute; what `distill` or `loop` has published. */
    readonly directory: string;
    /** `shadow`: the student is asked, and the upstream serves. */
    readonly mode: 'on' | 'shadow';
    /** For the service behind a student of kind `http`; secret, '' for none: never print. */
    readonly key: string;
    /** Clients' credentials that the student may answer before the upstream has taken them; secret: never print. */
    readonly client_keys: readonly string[];
    /** Share of covered steps that the upstream serves all the same, to be compared. */
    readonly audit_share: number;
    /** A run stays with the upstream once it has served a step of it. */
    readonly sticky: boolean;
    /** Absolute; where it is kept how right the student has been. */
    readonly watch_path: string;
    /** Absolute; where it is kept what it has served and saved. */
    readonly ledger_path: string;
    /** How long a step waits for the student; null: what its kind gets. */
    readonly timeout_ms: number | null;
    /** Dollars a million tokens, by model; null: what is saved is not told in money. */
    readonly prices: Prices | null;
  } | null;
  /** What each engine runs on; null: it is off. */
  readonly engines: {
    readonly vector_store: 'embedded:' | null;
    readonly accounts: 'embedded:' | null;
    readonly live_stream: 'embedded:' | null;
  };
  /** Names of keys for engines that are set although no engine here takes one. */
  readonly unused_keys: readonly string[];
}

/** What `CORS_ALLOW_DEV_ORIGINS` adds (decisions, CORS). */
const DEV_ORIGINS: readonly string[] = ['localhost', '127.0.0.1'].flatMap((name) =>
  [3000, 5173, 8000].map((devPort) => `http://${name}:${devPort}`),
);

/** Flags that stand in for a variable; a flag wins over the environment. */
export interface ConfigFlags {
  /** Which listener `--host` and `--port` speak of. `proxy`: it has a port, too, where nobody names one. */
  listener: 'api' | 'gateway' | 'proxy';
  host?: string | undefined;
  port?: string | undefined;
  db?: string | undefined;
  note?: string | undefined;
}

/** A value that the start cannot go on with. The message is one line: name, value (unless secret), what is allowed. */
export class ConfigError extends Error {
  /** sysexits.h EX_CONFIG. */
  readonly exit_code = 78;

  constructor(name: string, value: string, allowed: string) {
    super(`${name}=${SECRET_NAMES.has(name) ? '(not shown)' : quoteValue(value)}: ${allowed}`);
    this.name = 'ConfigError';
  }
}

/** Where EMBEDDING_API_KEY is good for when EMBEDDING_API_URL names no other place. */
const EMBEDDING_API_BASE = 'https://api.openai.com/v1';

/** Their values may carry a password or a key: an error names them without the value. */
export const SECRET_NAMES: ReadonlySet<string> = new Set([
  'OTEL_EXPORTER_OTLP_HEADERS',
  'GW_ROUTES',
  'GW_PROXY_KEYS',
  'VECTOR_STORE_URL',
  'AUTH_DB_URL',
  'AUTH_DB_CONN_URL',
  'VECTOR_STORE_API_KEY',
  'AUTH_DB_SERVICE_KEY',
  'AUTH_JWT_SECRET',
  'AUTH_JWKS_URL',
  'SVC_KEYS',
  'DISTILL_MODEL_KEY',
  'SVC_STUDENT_KEY',
  'SVC_STUDENT_KEYS',
  'EMBEDDING_API_KEY',
  'STRIPE_SECRET_KEY',
  'STRIPE_WEBHOOK_SECRET',
  'STRIPE_WEBHOOK_THIN_SECRET',
  'SVC_API_KEY',
]);

function quoteValue(value: string): string {
  const quoted = JSON.stringify(value.length > 200 ? `${value.slice(0, 200)}…` : value);
  // `scheme://user:password@host` in any variable: whoever put it there did not want it in a log.
  return quoted.replace(/\/\/[^/\s]*@/g, '//(not shown)@');
}

/** A whole number in decimal digits, nothing else: no sign, no exponent, no unit. */
function wholeNumber(min: number, max: number, unit = '') {
  const bounds = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,16}$/)
    .transform(Number)
    .refine((n) => n >= min && n <= max)
    .describe(`allowed is a whole number${unit} ${bounds}`);
}

const port = wholeNumber(0, 65_535).describe('allowed is a port from 0 (any free one) to 65535');

const host = z
  .string()
  .refine((text) => isIP(text) !== 0 || /^(?=.{1,253}$)[a-z\d]([a-z\d.-]*[a-z\d])?$/i.test(text))
  .describe('allowed is an IP address or a host name');

const bytes = (max: number = Number.MAX_SAFE_INTEGER) => wholeNumber(1, max, ' of bytes');

const days = wholeNumber(0, RETENTION_DAYS_MAX, ' of days');

const threads = z
  .union([z.literal('auto'), wholeNumber(1, THREADS_MAX)])
  .describe(`allowed is auto, or a whole number from 1 to ${THREADS_MAX}`);

const BASE_RULE =
  'allowed is an http:// or https:// address, with a path or without, but no credentials, query or #';

/**
 * An upstream's address; `{region}` may stand in it where `placeholder` says so. The text is kept as the operator wrote
 * it but for a trailing slash: the client's path begins with one.
 */
function base(placeholder = false) {
  return z
    .string()
    .refine((text) => {
      const concrete = placeholder ? text.replaceAll('{region}', 'us-east-1') : text;
      if (!/^https?:\/\/[^\s\\{}?#@]+$/i.test(concrete) || !URL.canParse(concrete)) return false;
      return new URL(concrete).hostname !== '';
    })
    .transform((text) => text.replace(/\/+$/, ''))
    .describe(placeholder ? `${BASE_RULE}; {region} stands for the region` : BASE_RULE);
}

const otlpUrl = z
  .string()
  .refine((text) => /^https?:\/\/[^\s\\@#]+$/i.test(text) && URL.canParse(text))
  .describe('allowed is an http:// or https:// address without credentials and #');

const otlpHeaders = z
  .string()
  .transform((text) => readPairs(text))
  .refine((pairs) =>
    pairs?.every(
      ([name, value]) =>
        /^[a-z\d!#$%&'*+.^_`|~-]{1,100}$/i.test(name) && /^[\t\x20-\x7e]{0,8192}$/.test(value),
    ),
  )
  .transform((pairs) => Object.fromEntries((pairs ?? []).map(([name, value]) => [name.toLowerCase(), value])))
  .describe('allowed are headers as name=value with commas between them, values percent-encoded');

const otlpAttributes = z
  .string()
  .transform((text) => readPairs(text))
  .refine((pairs) => pairs !== null && pairs.length <= 128)
  .transform((pairs) => Object.fromEntries(pairs ?? []))
  .describe(
    'allowed are up to 128 attributes as name=value with commas between them, values percent-encoded',
  );

const label = z
  .string()
  .regex(/^[a-z\d][a-z\d._-]{0,63}$/i)
  .describe('allowed are 1 to 64 letters, digits, dots, dashes and underscores');

const note = z
  .string()
  .max(NOTE_CHARACTERS)
  .regex(/^\P{Cc}*$/u)
  .describe(`allowed are up to ${NOTE_CHARACTERS} printable characters`);

const runHeaders = z
  .string()
  .transform((text) => splitList(text).map((name) => name.toLowerCase()))
  .refine((list) => list.length <= RUN_HEADERS_MAX && list.every(isRunHeader))
  .describe(
    `allowed are up to ${RUN_HEADERS_MAX} names of headers, separated by commas, that no credential is in (x-session-id is taken for one)`,
  );

const path = z
  .string()
  .regex(/^\P{Cc}+$/u)
  .describe('allowed is a path');

/** An address of another engine must not start this one in its place: its data would not be there. */
const engine = z
  .literal('embedded:')
  .describe('allowed is embedded: (the built-in engine, there is no other yet), or unset for none');

const flag = z
  .enum(['0', '1'])
  .transform((text) => text === '1')
  .describe('allowed is 1 (on) or 0 (off)');

const onOff = z
  .enum(['on', 'off'])
  .transform((text) => text === 'on')
  .describe('allowed is on or off');

/** Some documents write flags as words. */
const wordFlag = z
  .enum(['0', '1', 'false', 'true'])
  .transform((text) => text === '1' || text === 'true')
  .describe('allowed is true or false');

const relegationWires = z
  .string()
  .transform((text) => splitList(text))
  .pipe(z.array(z.enum(RELEGATION_WIRES)).min(1))
  .transform((list) => Object.freeze([...new Set(list)]))
  .describe(`allowed is a list of ${RELEGATION_WIRES.join(', ')}, separated by commas`);

const keys = z
  .string()
  .transform((text) => splitList(text))
  .refine((list) => list.length <= STATIC_KEYS_MAX && list.every((key) => /^[\x21-\x7e]{1,256}$/.test(key)))
  .describe(
    `allowed are up to ${STATIC_KEYS_MAX} keys of 1 to 256 visible ASCII characters, separated by commas`,
  );

const origins = z
  .string()
  .transform((text) => splitList(text).map((origin) => origin.toLowerCase().replace(/\/$/, '')))
  .refine((list) => list.length <= CORS_ORIGINS_MAX && list.every(isOrigin))
  .describe(
    `allowed are up to ${CORS_ORIGINS_MAX} origins like https://app.example.com, separated by commas; no *`,
  );

const hostNames = z
  .string()
  .transform((text) => splitList(text).map((name) => name.toLowerCase()))
  .refine(
    (list) =>
      list.length <= ALLOWED_HOSTS_MAX &&
      list.every((name) => name === '*' || /^(?=.{1,253}$)[a-z\d_]([a-z\d._-]*[a-z\d_])?\.?$/.test(name)),
  )
  .describe(
    `allowed are up to ${ALLOWED_HOSTS_MAX} host names like understudy.example.com, without a port, separated by commas; * for any`,
  );

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** Whether the text is what a browser sends as `Origin`: scheme, host and a port that is not the scheme's own. */
function isOrigin(text: string): boolean {
  return /^https?:\/\/[^/]/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

const origin = (example: string) =>
  z
    .string()
    .transform((text) => text.toLowerCase().replace(/\/$/, ''))
    .refine(isOrigin)
    .describe(`allowed is an address like ${example}, with a port or without, and no path`);

const secret = z.string().min(1).max(4_096).describe('allowed are up to 4096 characters');

const claim = z
  .string()
  .regex(/^\P{Cc}{1,1000}$/u)
  .describe('allowed are up to 1000 printable characters');

/** What stands in AUTH_JWT_ISSUER or AUTH_JWT_AUDIENCE for "whatever the token says". */
const ANY_CLAIM = 'any';

const jwksUrl = z
  .string()
  .refine((text) => /^https?:\/\//i.test(text) && URL.canParse(text))
  .describe('allowed is an http:// or https:// address');

const modelName = z
  .string()
  .regex(/^\P{Cc}{1,200}$/u)
  .describe('allowed are 1 to 200 printable characters; DISTILL_MODEL_URL and DISTILL_MODEL go together');

const planCaps = z
  .string()
  .transform((text, context): PlanCaps => {
    const parsed = z.record(z.string().min(1), z.int().min(0).nullable()).safeParse(parseJson(text));
    if (parsed.success) return Object.freeze(parsed.data);
    context.addIssue('not caps');
    return z.NEVER;
  })
  .describe(
    'allowed is a JSON object of plans, each with a whole number or null: {"free": 50000, "pro": null}',
  );

const relegationMode = z.enum(['on', 'shadow', 'off']).describe('allowed is on, shadow or off');

const relegationAudit = z
  .string()
  .regex(/^(0(\.\d{1,6})?|1(\.0{1,6})?)$/)
  .transform(Number)
  .describe('allowed is a share from 0 to 1: 0.05');

const price = z.number().min(0).max(1_000_000);
const prices = z
  .string()
  .transform((text, context) => {
    const schema = z.record(
      z.string().min(1).max(200),
      z.strictObject({
        input: price,
        output: price,
        cache_read: price.optional(),
        cache_write: price.optional(),
      }),
    );
    const parsed = schema.safeParse(parseJson(text));
    if (parsed.success && Object.keys(parsed.data).length <= PRICED_MODELS_MAX)
      return Object.freeze(parsed.data);
    context.addIssue('not prices');
    return z.NEVER;
  })
  .describe(
    'allowed is a JSON object of models, each with dollars a million tokens: {"model": {"input": 3, "output": 15}}',
  );

const routesText = z
  .string()
  .max(ROUTES_FILE_BYTES)
  .describe('allowed is a JSON object, or the path of a file that holds one');

const proxyHosts = z
  .string()
  .transform((text, context) => {
    const hosts = readProxyHosts(splitList(text).map((word) => word.toLowerCase()));
    if (hosts !== null) return Object.freeze(hosts);
    context.addIssue('not hosts');
    return z.NEVER;
  })
  .describe(
    `allowed are host names like llm.example.com, *.example.com for all below, with a port or without, and the word ${DEFAULT_HOSTS_WORD}, separated by commas`,
  );

const proxyKeys = z
  .string()
  .transform((text) => splitList(text))
  .refine((list) => list.length <= STATIC_KEYS_MAX && list.every((key) => /^[\w.~-]{16,256}$/.test(key)))
  .describe(
    `allowed are up to ${STATIC_KEYS_MAX} keys of 16 to 256 letters, digits, dots, dashes, tildes and underscores, separated by commas`,
  );

const blindReach = z.enum(['all', 'public', 'off']).describe('allowed is all, public or off');

/** @returns undefined for what is no JSON */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const operators = z
  .string()
  .transform((text) => splitList(text).map(foldEmail))
  .refine((list) => list.length <= OPERATORS_MAX && list.every(isAddress))
  .describe(`allowed are up to ${OPERATORS_MAX} e-mail addresses, separated by commas`);

/** Only the form: an address that nobody has makes nobody an operator. */
function isAddress(text: string): boolean {
  return text.length <= 254 && /^[^\s@,]+@[^\s@,]+$/.test(text);
}

const organization = z
  .string()
  .regex(/^[\x21-\x7e]{1,128}$/)
  .describe('allowed is the id of an organization: 1 to 128 visible ASCII characters');

const level = z.enum(LOG_LEVELS).describe(`allowed is one of ${LOG_LEVELS.join(', ')}`);

/** Goes into a header as it is. */
const embeddingKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,1000}$/)
  .describe('allowed are 1 to 1000 printable ASCII characters without spaces');

const embeddingModel = z
  .string()
  .max(MODEL_CHARACTERS)
  .regex(/^\P{Cc}+$/u)
  .describe(`allowed are 1 to ${MODEL_CHARACTERS} printable characters`);

/** Every variable this version reads, and the text that stands for it when it is unset (undefined: nothing does). */
const VARIABLES = {
  LOG_LEVEL: [level, 'info'],
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
  // The same by its former name, as the documents have it.
  FRONT_THREADS: [threads, 'auto'],
  COMPUTE_THREADS: [threads, 'auto'],
  HOST: [host, '127.0.0.1'],
  PORT: [port, '8000'],
  TLS_CERT: [path, undefined],
  TLS_KEY: [path, undefined],
  ALLOWED_HOSTS: [hostNames, undefined],
  MAX_CONNECTIONS: [wholeNumber(0, 1_000_000), undefined],
  MAX_CONNECTIONS_PER_ADDRESS: [wholeNumber(0, 1_000_000), undefined],
  MIN_UPLOAD_BYTES_PER_SEC: [
    wholeNumber(0, 1_000_000, ' of bytes'),
    String(DEFAULTS.MIN_UPLOAD_BYTES_PER_SEC),
  ],
  PUBLIC_URL: [origin('https://understudy.example.com'), undefined],
  API_AWAKE_US: [wholeNumber(0, 10_000), '100'],
  MAX_BODY_BYTES: [bytes(CAPTURE_BYTES_MAX), String(DEFAULTS.MAX_BODY_BYTES)],
  RATE_LIMIT_PER_SEC: [wholeNumber(1, Number.MAX_SAFE_INTEGER), String(DEFAULTS.RATE_LIMIT_PER_SEC)],
  RATE_LIMIT_BURST: [wholeNumber(1, Number.MAX_SAFE_INTEGER), String(DEFAULTS.RATE_LIMIT_BURST)],
  AUTH_FAIL_RATE_PER_SEC: [wholeNumber(0, 1_000_000), String(DEFAULTS.AUTH_FAIL_RATE_PER_SEC)],
  SVC_KEYS: [keys, undefined],
  AUTH_JWT_SECRET: [secret, undefined],
  AUTH_JWKS_URL: [jwksUrl, undefined],
  AUTH_JWT_ISSUER: [claim, undefined],
  AUTH_JWT_AUDIENCE: [claim, undefined],
  CORS_ALLOWED_ORIGINS: [origins, undefined],
  CORS_ALLOW_DEV_ORIGINS: [wordFlag, 'false'],
  PLAN_CAPS: [planCaps, JSON.stringify(DEFAULT_PLAN_CAPS)],
  STRIPE_SECRET_KEY: [secret, undefined],
  STRIPE_WEBHOOK_SECRET: [secret, undefined],
  STRIPE_WEBHOOK_THIN_SECRET: [secret, undefined],
  STRIPE_API_BASE: [origin('https://api.stripe.com'), undefined],
  DISTILL_MODEL_URL: [base(), undefined],
  DISTILL_MODEL: [modelName, undefined],
  DISTILL_MODEL_KEY: [secret, undefined],
  EMBEDDING_MODEL_DIR: [path, undefined],
  EMBEDDING_API_KEY: [embeddingKey, undefined],
  EMBEDDING_API_URL: [base(), undefined],
  EMBEDDING_API_MODEL: [embeddingModel, 'text-embedding-3-small'],
  GW_HOST: [host, '127.0.0.1'],
  GW_PORT: [port, '8787'],
  GW_TLS_CERT: [path, undefined],
  GW_TLS_KEY: [path, undefined],
  GW_UPSTREAM_BASE: [base(), 'https://api.anthropic.com'],
  GW_PROVIDER: [label, 'anthropic'],
  GW_GEMINI_BASE: [base(), 'https://generativelanguage.googleapis.com'],
  GW_BEDROCK_BASE: [base(true), 'https://bedrock-runtime.{region}.amazonaws.com'],
  GW_ROUTES: [routesText, undefined],
  GW_UPSTREAM_CA: [path, undefined],
  GW_PROXY_PORT: [port, undefined],
  GW_PROXY_HOST: [host, '127.0.0.1'],
  GW_PROXY_HOSTS: [proxyHosts, DEFAULT_HOSTS_WORD],
  GW_PROXY_KEYS: [proxyKeys, undefined],
  GW_PROXY_BLIND: [blindReach, undefined],
  GW_NOTE: [note, ''],
  SVC_RUN_HEADERS: [runHeaders, undefined],
  GW_CAPTURE: [onOff, 'on'],
  OTEL_EXPORTER_OTLP_ENDPOINT: [otlpUrl, undefined],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [otlpUrl, undefined],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    z
      .enum(['http/protobuf', 'http/json'])
      .describe('allowed is http/protobuf or http/json (grpc: send to the HTTP port of the collector)'),
    'http/protobuf',
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [otlpHeaders, undefined],
  OTEL_EXPORTER_OTLP_TIMEOUT: [wholeNumber(1, 600_000, ' of milliseconds'), '10000'],
  OTEL_EXPORTER_OTLP_COMPRESSION: [z.enum(['none', 'gzip']).describe('allowed is gzip or none'), 'none'],
  OTEL_SERVICE_NAME: [note, undefined],
  OTEL_RESOURCE_ATTRIBUTES: [otlpAttributes, undefined],
  OTEL_SDK_DISABLED: [wordFlag, 'false'],
  GW_OTEL_CONTENT: [onOff, 'off'],
  SVC_REDACT: [flag, '1'],
  SVC_DISTILL_DIR: [path, undefined],
  GW_RELEGATION: [relegationMode, 'on'],
  GW_RELEGATION_AUDIT: [relegationAudit, '0.05'],
  GW_RELEGATION_STICKY: [onOff, 'off'],
  GW_RELEGATION_WIRES: [relegationWires, 'messages'],
  SVC_STUDENT_KEY: [embeddingKey, undefined],
  SVC_STUDENT_KEYS: [keys, undefined],
  GW_STUDENT_TIMEOUT_MS: [wholeNumber(1, STUDENT_TIMEOUT_MAX_MS, ' of milliseconds'), undefined],
  GW_PRICES: [prices, undefined],
  OPERATORS: [operators, undefined],
  GW_ORG: [organization, undefined],
  GW_MAX_QUEUE: [wholeNumber(1, Number.MAX_SAFE_INTEGER, ' of exchanges'), String(DEFAULTS.GW_MAX_QUEUE)],
  GW_MAX_QUEUE_BYTES: [bytes(), String(DEFAULTS.GW_MAX_QUEUE_BYTES)],
  GW_MAX_CAPTURE_BYTES: [bytes(CAPTURE_BYTES_MAX), String(DEFAULTS.GW_MAX_CAPTURE_BYTES)],
  VECTOR_STORE_URL: [engine, undefined],
  AUTH_DB_URL: [engine, undefined],
  AUTH_DB_CONN_URL: [engine, undefined],
  VECTOR_STORE_API_KEY: [embeddingKey, undefined],
  AUTH_DB_SERVICE_KEY: [embeddingKey, undefined],
} as const satisfies Record<string, readonly [z.ZodType, string | undefined]>;

type VariableName = keyof typeof VARIABLES;

/** Every variable of the service, with the text that stands for it when it is unset; null: nothing does. */
export const VARIABLE_DEFAULTS: ReadonlyMap<string, string | null> = new Map(
  Object.entries(VARIABLES).map(([name, [, unset]]) => [name, unset ?? null]),
);

/** Keys for engines outside this process; the built-in one takes none. */
const ENGINE_KEYS = ['VECTOR_STORE_API_KEY', 'AUTH_DB_SERVICE_KEY'] as const;

type Variables = {
  [Name in VariableName]:
    | z.output<(typeof VARIABLES)[Name][0]>
    | ((typeof VARIABLES)[Name][1] extends undefined ? null : never);
};

/**
 * Reads the operator's decisions. An empty variable counts as unset, as in a compose file that passes one through.
 * @param flags what the command line said; each stands in for its variable
 * @param env the environment; the process's own unless a test passes another
 * @throws ConfigError at the first value that is not allowed
 */
export function loadConfig(flags: ConfigFlags, env: NodeJS.ProcessEnv = process.env): Config {
  const prefix = LISTENER_PREFIXES[flags.listener];
  const flagOf: Partial<Record<VariableName, [flag: string, text: string | undefined]>> = {
    [`${prefix}HOST`]: ['--host', flags.host],
    [`${prefix}PORT`]: ['--port', flags.port],
    GW_NOTE: ['--note', flags.note],
  };
  const values: Partial<Record<VariableName, unknown>> = {};
  for (const name of Object.keys(VARIABLES) as VariableName[]) {
    const [schema, unset]: readonly [z.ZodType, string | undefined] = VARIABLES[name];
    const [flagName, flagText] = flagOf[name] ?? [];
    const text = flagText ?? (env[name] || unset);
    values[name] =
      text === undefined ? null : parseText(flagText === undefined ? name : flagName!, schema, text);
  }
  const db = flags.db === undefined ? undefined : parseText('--db', path, flags.db);
  if (flags.listener === 'proxy') values.GW_PROXY_PORT ??= PROXY_PORT;
  return freezeConfig(values as Variables, db);
}

const LISTENER_PREFIXES = { api: '', gateway: 'GW_', proxy: 'GW_PROXY_' } as const;
/** Of `understudy proxy`. */
const PROXY_PORT = 8788;

/** Where an agent's side finds the API, and with what it proves who it is. */
export interface AgentConnection {
  /** No trailing slash. */
  readonly base_url: string;
  /** Secret: never print. */
  readonly api_key: string;
}

/**
 * Reads what commands need that call the API from an agent's side.
 * @param url what `--url` said
 * @throws ConfigError at a value that is not allowed, or without a key
 */
export function loadAgentConnection(
  url: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
): AgentConnection {
  const key = env.SVC_API_KEY ?? '';
  if (key === '') throw new ConfigError('SVC_API_KEY', '', 'set it to an API key of the service');
  const [name, text] = url === undefined ? ['SVC_BASE_URL', env.SVC_BASE_URL] : ['--url', url];
  return {
    base_url: parseText(name, base(), text || `http://127.0.0.1:${VARIABLES.PORT[1]}`),
    api_key: parseText('SVC_API_KEY', embeddingKey, key),
  };
}

/** @throws ConfigError when the service is named without the model or the model without the service */
function readDistillModel(v: Variables): Config['distill_model'] {
  const { DISTILL_MODEL_URL: url, DISTILL_MODEL: model, DISTILL_MODEL_KEY: key } = v;
  if (url !== null && model !== null) return Object.freeze({ url, model, key: key ?? '' });
  if (url === null && model === null) return null;
  const missing = url === null ? 'DISTILL_MODEL_URL' : 'DISTILL_MODEL';
  throw new ConfigError(missing, '', VARIABLES[missing][0].description ?? '');
}

/**
 * @throws ConfigError when the provider's keys are named without whose tokens and for whom: every application that the
 * provider knows has tokens which these keys verify
 */
function readTokenClaims(v: Variables): Pick<Config['auth'], 'jwt_issuer' | 'jwt_audience'> {
  const { AUTH_JWKS_URL: url, AUTH_JWT_ISSUER: issuer, AUTH_JWT_AUDIENCE: audience } = v;
  const needed = (name: string, claim: string) =>
    new ConfigError(name, '', `AUTH_JWKS_URL needs what \`${claim}\` of a token must be, or ${ANY_CLAIM}`);
  if (url !== null && issuer === null) throw needed('AUTH_JWT_ISSUER', 'iss');
  if (url !== null && audience === null) throw needed('AUTH_JWT_AUDIENCE', 'aud');
  return {
    jwt_issuer: issuer === ANY_CLAIM ? null : issuer,
    jwt_audience: audience === ANY_CLAIM ? null : audience,
  };
}

/** What the operator names, and what else is said to be this service's: where it listens, where people reach it. */
function readAllowedHosts(v: Variables): string[] {
  const names = [...(v.ALLOWED_HOSTS ?? []), v.HOST.toLowerCase(), v.GW_HOST.toLowerCase()];
  if (v.PUBLIC_URL !== null) names.push(new URL(v.PUBLIC_URL).hostname);
  return [...new Set(names)];
}

/** @throws ConfigError when the file is no key, or others may read it */
function readDataKey(file: string | null): Uint8Array | null {
  if (file === null) return null;
  try {
    return readKeyFile(resolve(file));
  } catch (thrown) {
    throw new ConfigError('DATA_KEY_FILE', file, (thrown as Error).message);
  }
}

/** @throws ConfigError when one of the two is missing, or the files do not do */
function readTls(v: Variables, prefix: '' | 'GW_'): CertificateFiles | null {
  const names = { cert: `${prefix}TLS_CERT`, key: `${prefix}TLS_KEY` } as const;
  const { [names.cert]: cert, [names.key]: key } = v;
  if (cert === null && key === null) return null;
  if (cert === null) throw new ConfigError(names.cert, '', `${names.key} is set, and the two go together`);
  if (key === null) throw new ConfigError(names.key, '', `${names.cert} is set, and the two go together`);
  const files = Object.freeze({ cert: resolve(cert), key: resolve(key) });
  try {
    checkCertificate(files);
  } catch (thrown) {
    const { file, message } = thrown as CertificateError;
    throw new ConfigError(names[file], file === 'cert' ? cert : key, message);
  }
  return files;
}

/**
 * Upstreams under prefixes of their own, written down in place or in a file.
 * @throws ConfigError that says what is wrong, and shows no value
 */
function readRoutes(text: string | null): UpstreamRoute[] {
  if (text === null) return [];
  const refuse = (why: string) => new ConfigError('GW_ROUTES', text, why);
  let json = text;
  if (!/^\s*[{[]/.test(text)) {
    const file = resolve(text);
    try {
      const stat = statSync(file);
      if (!stat.isFile()) throw new Error('it is not a file');
      if (stat.size > ROUTES_FILE_BYTES) throw new Error('the file is too large');
      json = readFileSync(file, 'utf8');
    } catch (thrown) {
      throw refuse(
        `the file cannot be read (${(thrown as NodeJS.ErrnoException).code ?? (thrown as Error).message})`,
      );
    }
  }
  const given = parseJson(json);
  if (given === undefined) throw refuse('it is not JSON');
  const bases = base(true);
  try {
    return readUpstreamRoutes(given, (written) => bases.safeParse(written).data ?? null);
  } catch (thrown) {
    throw refuse((thrown as Error).message);
  }
}

/** Off without an address, and when the standard's switch is thrown. */
function readOtel(v: Variables): Config['otel'] {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces } = v;
  if (v.OTEL_SDK_DISABLED || (base === null && traces === null)) return null;
  const named = v.OTEL_SERVICE_NAME === null ? {} : { 'service.name': v.OTEL_SERVICE_NAME };
  return Object.freeze({
    url: traces === null ? joinTracesPath(base!) : new URL(traces).href,
    encoding: v.OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json' ? 'json' : 'protobuf',
    headers: Object.freeze(v.OTEL_EXPORTER_OTLP_HEADERS ?? {}),
    timeout_ms: v.OTEL_EXPORTER_OTLP_TIMEOUT,
    compresses: v.OTEL_EXPORTER_OTLP_COMPRESSION === 'gzip',
    attributes: Object.freeze({ 'service.name': 'understudy', ...v.OTEL_RESOURCE_ATTRIBUTES, ...named }),
    has_content: v.GW_OTEL_CONTENT,
  });
}

/**
 * @throws ConfigError when it would be open to a network without a key
 */
function readProxy(v: Variables): Config['proxy'] {
  const { GW_PROXY_PORT: port, GW_PROXY_HOST: host, GW_PROXY_KEYS: keys, GW_PROXY_BLIND: blind } = v;
  if (port === null) return null;
  const isNear = isLoopback(host);
  if (!isNear && (keys ?? []).length === 0) {
    throw new ConfigError(
      'GW_PROXY_HOST',
      host,
      'beyond loopback a proxy needs keys, since whoever can connect could use it: set GW_PROXY_KEYS',
    );
  }
  return Object.freeze({
    host,
    port,
    hosts: v.GW_PROXY_HOSTS,
    keys: Object.freeze([...new Set(keys ?? [])]),
    blind: blind ?? (isNear ? 'all' : 'public'),
  });
}

/** @throws ConfigError when the file is none of certificates */
function readUpstreamCa(file: string | null): string | null {
  if (file === null) return null;
  const refuse = (why: string) => new ConfigError('GW_UPSTREAM_CA', file, why);
  let text: string;
  try {
    const stat = statSync(file);
    if (!stat.isFile() || stat.size > UPSTREAM_CA_BYTES) throw new Error('it is no file of certificates');
    text = readFileSync(file, 'latin1');
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    throw refuse(
      code === 'ENOENT' ? 'there is no such file' : `the file cannot be read (${code ?? message})`,
    );
  }
  const certificates = text.match(PEM_CERTIFICATE) ?? [];
  if (certificates.length === 0)
    throw refuse('the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)');
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
  } catch {
    throw refuse('a certificate of the file cannot be read');
  }
  return certificates.join('\n');
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Off without a directory, and when it is said. */
function readRelegation(v: Variables): Config['relegation'] {
  const { SVC_DISTILL_DIR: directory, GW_RELEGATION: mode } = v;
  if (directory === null || mode === 'off') return null;
  return Object.freeze({
    directory: resolve(directory),
    mode,
    key: v.SVC_STUDENT_KEY ?? '',
    client_keys: Object.freeze([...new Set(v.SVC_STUDENT_KEYS ?? [])]),
    audit_share: v.GW_RELEGATION_AUDIT,
    sticky: v.GW_RELEGATION_STICKY,
    watch_path: join(resolve(v.DATA_DIR), 'student-watch.json'),
    ledger_path: join(resolve(v.DATA_DIR), 'student-ledger.json'),
    timeout_ms: v.GW_STUDENT_TIMEOUT_MS,
    prices: v.GW_PRICES,
  });
}

/** A key or an address is enough to ask a remote service: the usual one has an address, one's own may need no key. */
function readEmbedding(v: Variables): Config['embedding'] {
  const { EMBEDDING_API_KEY: key, EMBEDDING_API_URL: url, EMBEDDING_API_MODEL: model } = v;
  const isRemote = key !== null || url !== null;
  return Object.freeze({
    model_dir: v.EMBEDDING_MODEL_DIR === null ? null : resolve(v.EMBEDDING_MODEL_DIR),
    remote: isRemote ? Object.freeze({ url: url ?? EMBEDDING_API_BASE, model, key: key ?? '' }) : null,
  });
}

/** What `auto` stands for. @param cores usable ones, ≥ 1 */
export function chooseThreads(cores: number): { server: number; actor: number; compute: number } {
  return THREADS_BY_CORES.findLast((row) => row.cores <= cores)!;
}

function freezeConfig(v: Variables, db: string | undefined): Config {
  const data_dir = resolve(v.DATA_DIR);
  const cores = countUsableCores();
  const chosen = chooseThreads(cores);
  const or = (given: number | 'auto', auto: number) => (given === 'auto' ? auto : given);
  const routes = readRoutes(v.GW_ROUTES);
  return Object.freeze({
    version: readVersion(),
    log_level: v.LOG_LEVEL,
    data_dir,
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
    allowed_hosts: Object.freeze(readAllowedHosts(v)),
    connections: Object.freeze({
      total: v.MAX_CONNECTIONS,
      by_address: v.MAX_CONNECTIONS_PER_ADDRESS,
      min_upload_bytes_per_sec: v.MIN_UPLOAD_BYTES_PER_SEC,
    }),
    api: Object.freeze({
      host: v.HOST,
      port: v.PORT,
      tls: readTls(v, ''),
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
    }),
    auth: Object.freeze({
      static_keys: Object.freeze([...new Set(v.SVC_KEYS ?? [])]),
      jwt_secret: v.AUTH_JWT_SECRET,
      jwks_url: v.AUTH_JWKS_URL,
      ...readTokenClaims(v),
    }),
    billing: Object.freeze({
      secret_key: v.STRIPE_SECRET_KEY,
      webhook_secret: v.STRIPE_WEBHOOK_SECRET,
      webhook_thin_secret: v.STRIPE_WEBHOOK_THIN_SECRET,
      api_base: v.STRIPE_API_BASE,
      plan_caps: v.PLAN_CAPS,
    }),
    distill_model: readDistillModel(v),
    embedding: readEmbedding(v),
    gateway: Object.freeze({
      host: v.GW_HOST,
      port: v.GW_PORT,
      tls: readTls(v, 'GW_'),
      upstream_base: v.GW_UPSTREAM_BASE,
      provider: v.GW_PROVIDER,
      gemini_base: v.GW_GEMINI_BASE,
      bedrock_base: v.GW_BEDROCK_BASE,
      routes: Object.freeze(routes),
      route_secrets: Object.freeze(listRouteSecrets(routes)),
      upstream_ca: readUpstreamCa(v.GW_UPSTREAM_CA),
    }),
    otel: readOtel(v),
    proxy: readProxy(v),
    capture: Object.freeze({
      enabled: v.GW_CAPTURE,
      db: db === undefined ? join(data_dir, 'capture.mdb') : resolve(db),
      note: v.GW_NOTE,
      run_headers: Object.freeze(v.SVC_RUN_HEADERS ?? []),
      redact: v.SVC_REDACT,
      max_queue: v.GW_MAX_QUEUE,
      max_queue_bytes: v.GW_MAX_QUEUE_BYTES,
      max_capture_bytes: v.GW_MAX_CAPTURE_BYTES,
      prices: v.GW_PRICES,
    }),
    operators: Object.freeze({ emails: Object.freeze([...new Set(v.OPERATORS ?? [])]), org: v.GW_ORG }),
    student_key: v.SVC_STUDENT_KEY ?? '',
    relegation: readRelegation(v),
    relegation_wires: v.GW_RELEGATION_WIRES,
    engines: Object.freeze({
      vector_store: v.VECTOR_STORE_URL,
      accounts: v.AUTH_DB_URL,
      live_stream: v.AUTH_DB_CONN_URL,
    }),
    unused_keys: Object.freeze(ENGINE_KEYS.filter((name) => v[name] !== null)),
  });
}

function parseText<T>(name: string, schema: z.ZodType<T>, text: string): T {
  const result = schema.safeParse(text);
  if (result.success) return result.data;
  throw new ConfigError(name, text, schema.description ?? 'this value is not allowed');
}

/** The package's version, from the package.json of the tree that runs: `src/` and `dist/src/` lie at different depths. */
export function readVersion(): string {
  const isBuilt = import.meta.url.endsWith('.js');
  const file = new URL(isBuilt ? '../../package.json' : '../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/**
 * uWebSockets.js reads its head limit from the environment when it loads, and from nowhere else. To be called before
 * the first import of `src/http`; threads started later inherit it. A larger value that is there already stays.
 */
export function raiseParserHeadLimit(): void {
  const present = Number(process.env.UWS_HTTP_MAX_HEADERS_SIZE);
  if (!(present >= HTTP_HEAD_BYTES)) process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(HTTP_HEAD_BYTES);
}

/**
 * From 1.29 on onnxruntime reports its use to its makers unless the environment of the process says otherwise before it
 * loads. Nothing leaves this process that its operator did not send somewhere. For the main thread, since a worker's
 * `process.env` is a copy.
 */
export function silenceModelRuntime(): void {
  process.env.ORT_DISABLE_TELEMETRY = '1';
}

/** An address to connect to: listening on every address is none, and this machine's own stands in. */
export function toLocalUrl(url: string): string {
  return url.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]');
}

/** Whether only this machine can reach the address: the whole of 127/8, ::1 and the name localhost (RFC 6761, 6.3). */
export function isLoopback(host: string): boolean {
  return /^(127(\.\d{1,3}){3}|::1|0:0:0:0:0:0:0:1|::ffff:127(\.\d{1,3}){3}|localhost\.?)$/i.test(host);
}
