/**
 * `understudy up`, `serve` and `gateway`: reads the configuration, starts the process's parts, prints their addresses,
 * waits for a signal and drains. Main thread.
 */

import { isLoopback } from '../config/local-address.ts';
import { type Config, loadConfig, raiseParserHeadLimit } from '../config.ts';
import { DRAIN_DEADLINE_MS } from '../limits.ts';
import type { RunningUnderstudy } from '../main.ts';
import { type CertificateFiles, checkCertificate } from '../std/certificate-files.ts';
import { exitProcess } from '../std/loading-threads.ts';
import { quoteForShell } from '../std/shell-word.ts';
import { STUDENT_TIMEOUT_MS } from '../student/serving/limits.ts';
import { renderBanner } from './banner.ts';
import { watchEnd } from './end-watch.ts';
import { type FlagValues, readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';

/** Maximum time for a start that was given up, and for a stop. Then the process is ended. */
const GIVE_UP_GRACE_MS = 25_000;
const STOP_GRACE_MS = DRAIN_DEADLINE_MS + 10_000;

export type StartCommand = 'up' | 'serve' | 'gateway' | 'proxy';

export const START_SUMMARIES: Record<StartCommand, string> = {
  up: 'start everything: the API and the gateway',
  serve: 'start the API alone',
  gateway: 'start the gateway alone',
  proxy: 'start the gateway with a proxy for HTTPS_PROXY; --trust prints what clients set',
};

const PARTS: Record<StartCommand, { api: boolean; gateway: boolean }> = {
  up: { api: true, gateway: true },
  serve: { api: true, gateway: false },
  gateway: { api: false, gateway: true },
  proxy: { api: false, gateway: true },
};

/** The listener whose address --host and --port set. */
const LISTENERS = { up: 'gateway', serve: 'api', gateway: 'gateway', proxy: 'proxy' } as const;

const LISTENER = { host: 'text', port: 'text' } as const;
const LISTENER_AND_CAPTURE = { ...LISTENER, db: 'text', note: 'text' } as const;
const LISTENER_CAPTURE_AND_TRUST = { ...LISTENER_AND_CAPTURE, trust: 'switch' } as const;

const FLAGS = {
  up: LISTENER_AND_CAPTURE,
  serve: LISTENER,
  gateway: LISTENER_AND_CAPTURE,
  proxy: LISTENER_CAPTURE_AND_TRUST,
} as const;

/**
 * One press of Ctrl-C reaches a process under `npm start` twice: from the terminal, and forwarded by npm. Only a signal
 * after this time counts as a second signal.
 */
const SAME_SIGNAL_MS = 500;

const GATEWAY_VARIABLES = `  GW_UPSTREAM_BASE      where requests go            https://api.anthropic.com
  GW_PROVIDER           label of that provider       anthropic
  GW_GEMINI_BASE        behind /gemini               https://generativelanguage.googleapis.com
  GW_BEDROCK_BASE       behind /bedrock/{region}     https://bedrock-runtime.{region}.amazonaws.com
  GW_ROUTES             more upstreams by prefix: {"/openai": "openai", "/own": {"base": "http://…"}}, or a file
  GW_HOST, GW_PORT      where the gateway listens    127.0.0.1, 8787
  GW_UPSTREAM_CA        PEM file of certificate authorities for upstreams, besides the usual ones   none
  GW_PROXY_PORT         port of a proxy for HTTPS_PROXY (understudy proxy --help)   none
  GW_PROXY_HOST         where the proxy listens; beyond loopback the proxy needs GW_PROXY_KEYS   127.0.0.1
  GW_PROXY_HOSTS        hosts whose tunnels the proxy decrypts, comma-separated: names, *.names, default   default
  GW_PROXY_KEYS         keys, comma-separated; each client of the proxy must send one   none
  GW_PROXY_BLIND        allowed targets of all other tunnels: all, public, off   all; beyond loopback public
  GW_TLS_CERT, GW_TLS_KEY  PEM files for TLS at the gateway, which are read again when they change   none
  GW_NOTE               tag on what is captured      none
  SVC_RUN_HEADERS       your own headers that name runs, in addition to those of known clients   none
  GW_CAPTURE            off: forward only            on
  OTEL_EXPORTER_OTLP_ENDPOINT         sends captured turns as spans to a collector      none
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT  the same, a complete address                      none
  OTEL_EXPORTER_OTLP_PROTOCOL         http/protobuf or http/json                        http/protobuf
  OTEL_EXPORTER_OTLP_HEADERS          name=value, comma-separated                       none
  OTEL_EXPORTER_OTLP_TIMEOUT          timeout of one request, in milliseconds           10000
  OTEL_EXPORTER_OTLP_COMPRESSION      gzip or none                                      none
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES   source attributes of the spans      understudy, none
  OTEL_SDK_DISABLED     true: no spans are sent      false
  GW_OTEL_CONTENT       on: spans also have the texts of messages and tools         off
  SVC_REDACT            mask keys in stored bodies   1
  CAPTURE_BUCKET_URL    where sealed captures go: s3://bucket/prefix?region=…&endpoint=… or file:///folder   none
  CAPTURE_LOCAL_KEEP    how much of the sealed captures also stays on this machine: 7d, 12h, 50GiB or all   7d
  CAPTURE_SEAL_AFTER    maximum age of captures that are not sent yet: 15m, 1h, 1d   only the size of their file counts
  GW_MAX_QUEUE          exchanges that wait to be written; beyond it, copies are dropped, never delayed   10000
  GW_MAX_QUEUE_BYTES    the same in bytes            268435456
  GW_MAX_CAPTURE_BYTES  stored part of a body        67108864
  SVC_DISTILL_DIR       the student's folder (understudy distill)   none
  GW_RELEGATION         shadow: the student only reports what it would have served; off   on
  GW_RELEGATION_AUDIT   share of covered steps that the provider serves, for comparison   0.05
  GW_RELEGATION_STICKY  on: a run stays with the provider after it has served a step of the run   off
  GW_RELEGATION_WIRES   wire formats that the student serves: messages, chat_completions, responses   messages
  STUDENT_BUCKET_URL    a bucket or folder with one student for several gateways   none
  STUDENT_SHARING       follow: serve the student in the bucket; share: send SVC_DISTILL_DIR's student there   follow
  SVC_STUDENT_KEY       key of the service that a student of kind http asks               none
  SVC_STUDENT_KEYS      clients' keys that the student serves before the provider accepts them, comma-separated   none
  GW_STUDENT_TIMEOUT_MS how long a step waits for the student      ${STUDENT_TIMEOUT_MS.exemplar}, with a service ${STUDENT_TIMEOUT_MS.http}
  GW_PRICES             dollars a million tokens: {"model": {"input": 3, "output": 15}}   none
`;

const API_VARIABLES = `  HOST, PORT            where the API listens        127.0.0.1, 8000
  TLS_CERT, TLS_KEY     PEM files for TLS at the API, which are read again when they change   none
  PUBLIC_URL            where people reach the API   http://HOST:PORT
  MAX_BODY_BYTES        largest request body         5242880
  CAPTURE_READ_URL      bucket whose captures the API shows; gateways send them there (CAPTURE_BUCKET_URL)   none
  API_AWAKE_US          microseconds that a thread busy-polls after an answer, before it sleeps   100
  VECTOR_STORE_URL      embedded: for patterns       unset: retrieval is empty
  AUTH_DB_URL           embedded: for accounts       unset: static keys only
                        postgres://…: a database that several boxes share (docs/scale.md, understudy migrate)
  AUTH_DB_CONN_URL      embedded: for the stream     unset: the live stream is off
  VECTOR_STORE_API_KEY, AUTH_DB_SERVICE_KEY          unused: embedded: takes no key
  SVC_KEYS              static API keys, comma-separated   none
  OPERATORS             e-mail addresses that may read captures at /capture/, comma-separated   none
  GW_ORG                organization whose owners and admins may read captures   none
  ALERT_PRIVATE_TARGETS private networks in which webhooks of alerts may be, comma-separated, or all   none
  ALERT_SMTP_URL        sends mail of alerts: smtp://USER:PASSWORD@HOST:PORT, or smtps://   none
  ALERT_MAIL_FROM       sender of that mail          understudy@localhost
  AUTH_JWT_SECRET       verifies tokens (HS256)      made and kept in DATA_DIR/secrets
  AUTH_JWKS_URL         verifies tokens by the identity provider's published keys instead   none
  AUTH_JWT_ISSUER, AUTH_JWT_AUDIENCE                 any; with AUTH_JWKS_URL, set both
  RATE_LIMIT_PER_SEC, RATE_LIMIT_BURST               200, 400 a key
  AUTH_FAIL_RATE_PER_SEC  failed sign-ins an address, after 100 at once; 0: not limited   5
  RETENTION_DAYS        days after which runs, traces, findings, live events and captures are deleted; 0: never   0
  RETENTION_DAYS_RUNS, RETENTION_DAYS_TRACES         the same for one kind of data: RETENTION_DAYS
  RETENTION_DAYS_FINDINGS, RETENTION_DAYS_LIVE_EVENTS, RETENTION_DAYS_CAPTURES
  CORS_ALLOWED_ORIGINS  origins of web pages that may call the API, comma-separated   none
  CORS_ALLOW_DEV_ORIGINS  true: also pages of localhost   false
  PLAN_CAPS             interventions a month        {"free":50000,"pro":500000,"enterprise":null}
  STRIPE_SECRET_KEY     turns billing on             none
  STRIPE_WEBHOOK_SECRET, STRIPE_WEBHOOK_THIN_SECRET  none
  STRIPE_API_BASE       address of Stripe's API      Stripe's own
  EMBEDDING_MODEL_DIR   folder of another ONNX model   the built-in model
  EMBEDDING_API_KEY, EMBEDDING_API_URL, EMBEDDING_API_MODEL   a remote service instead   none
  DISTILL_MODEL_URL     a model that writes patterns   none: patterns are written without a model
  DISTILL_MODEL, DISTILL_MODEL_KEY                   name and key of that model
`;

/** Retention in a process without the API, which has only captures. */
const CAPTURE_RETENTION_VARIABLES = `  RETENTION_DAYS        days after which captures are deleted; 0: never   0
  RETENTION_DAYS_CAPTURES  the same; overrides RETENTION_DAYS   RETENTION_DAYS
`;

const COMMON_VARIABLES = `  DATA_DIR              where data is kept           ./data
  DATA_KEY_FILE         file with the key that encrypts the data, 32 random bytes   none: no encryption
  SERVER_THREADS, ACTOR_THREADS, COMPUTE_THREADS     auto: by the number of cores that the process may use
  HTTP_SERVER           uwebsockets, or node (slower, on one thread)   auto: node if uwebsockets has no binary here
  STOP_NOTICE_MS        after a signal, how long /ready answers 503 before the service stops   0
  ALLOWED_HOSTS         more host names for requests without a credential, comma-separated   PUBLIC_URL's
  MAX_CONNECTIONS       connections of both ports; 0: no cap   half the descriptors (ulimit -n) that are left
  MAX_CONNECTIONS_PER_ADDRESS   0: no cap            1000 for a public address, no cap for others
  MIN_UPLOAD_BYTES_PER_SEC      minimum average over a minute; slower bodies get 408; 0: no minimum   64
  LOG_LEVEL             trace to fatal, or silent    info
`;

const GATEWAY_FLAGS = `  --host ADDRESS   where the gateway listens (GW_HOST); beyond loopback /__gw/ is open to all who can connect
  --port N         port of the gateway (GW_PORT); 0: any free port
  --db FILE        capture database; default: DATA_DIR/capture.mdb
  --note TEXT      tag on everything captured by this process (GW_NOTE)
`;

const HELP: Record<StartCommand, string> = {
  up: `Starts everything: the API and the gateway, until SIGTERM or Ctrl-C.

Usage: understudy up [--host ADDRESS] [--port N] [--db FILE] [--note TEXT]

${GATEWAY_FLAGS}
Variables, with their defaults:
${API_VARIABLES}${GATEWAY_VARIABLES}${COMMON_VARIABLES}
Example:
  GW_NOTE=baseline understudy up --db runs/baseline.mdb
`,
  serve: `Starts only the API, until SIGTERM or Ctrl-C.

Usage: understudy serve [--host ADDRESS] [--port N]

  --host ADDRESS   where the API listens (HOST)
  --port N         port of the API (PORT); 0: any free port

Variables, with their defaults:
${API_VARIABLES}${COMMON_VARIABLES}`,
  gateway: `Starts only the gateway, until SIGTERM or Ctrl-C. Agents send their provider requests to the gateway, which
forwards them byte for byte and keeps a copy. Capture never delays or fails a request.

Usage: understudy gateway [--host ADDRESS] [--port N] [--db FILE] [--note TEXT]

${GATEWAY_FLAGS}
Variables, with their defaults:
${GATEWAY_VARIABLES}${CAPTURE_RETENTION_VARIABLES}${COMMON_VARIABLES}
Examples:
  understudy gateway --note "after the prompt change"
  GW_UPSTREAM_BASE=https://api.openai.com GW_PROVIDER=openai understudy gateway --db openai.mdb

While it runs:
  GET  /__gw/stats      health, queue, counts        GET  /__gw/routes   the upstreams by path
  POST /__gw/flush      write the queue             POST /__gw/rotate   seal the file, open a new one
`,
  proxy: `Starts the gateway with a proxy, until SIGTERM or Ctrl-C. The proxy is for clients that lose features with another
base URL: they set HTTPS_PROXY instead. The proxy decrypts tunnels to model providers, and the gateway forwards and
stores what passes there. All other tunnels pass unread. Guide: docs/proxy.md.

Usage: understudy proxy [--host ADDRESS] [--port N] [--db FILE] [--note TEXT]
       understudy proxy --trust

  --trust          print the line that sets HTTPS_PROXY and the authority to trust, and end: eval "$(understudy proxy --trust)"
  --host ADDRESS   where the proxy listens (GW_PROXY_HOST); beyond loopback the proxy needs GW_PROXY_KEYS
  --port N         port of the proxy (GW_PROXY_PORT), default 8788; 0: any free port
  --db FILE        capture database; default: DATA_DIR/capture.mdb
  --note TEXT      tag on everything captured by this process (GW_NOTE)

Variables, with their defaults:
${GATEWAY_VARIABLES}${CAPTURE_RETENTION_VARIABLES}${COMMON_VARIABLES}
Example:
  GW_PROXY_HOSTS=default,llm.example.com understudy proxy
`,
};

/**
 * Runs one of the long-lived commands until a signal, and then drains it. With `--help` or `--trust`, only prints.
 * @returns the exit status: 0 after the help, after the drain, or if a signal ended the start; that of `runTrust` for
 * `--trust`. A second signal ends the process with 128 + the signal's number, so that this function does not return
 * @throws UsageError, ConfigError, or the error of the start itself (a port in use)
 */
export async function runStart(command: StartCommand, argv: string[], io: CliIo): Promise<number> {
  const { trust, ...flags }: FlagValues<typeof LISTENER_CAPTURE_AND_TRUST> = readFlags(
    argv,
    FLAGS[command] as typeof LISTENER_CAPTURE_AND_TRUST,
  );
  if (flags.help) {
    await io.out(HELP[command]);
    return EXIT.done;
  }
  const config = loadConfig({ listener: LISTENERS[command], ...flags });
  if (trust === true) return (await import('./proxy.ts')).runTrust(config, io);
  raiseParserHeadLimit();
  io.outliveReader?.();
  const { startUnderstudy } = await import('../main.ts');
  const stopAsked = waitForSignal();
  let isUp = false;
  const givingUp = new AbortController();
  void stopAsked.then((signal) => {
    watchEnd(isUp ? STOP_GRACE_MS + config.stop_notice_ms : GIVE_UP_GRACE_MS, () =>
      io.err('the process takes too long to end, and is killed now\n'),
    );
    if (isUp) return;
    io.err(`${signal}: the start is given up\n`);
    givingUp.abort();
  });
  let running: RunningUnderstudy;
  try {
    running = await startUnderstudy(config, PARTS[command], givingUp.signal);
  } catch (thrown) {
    if (thrown === givingUp.signal.reason) return EXIT.done;
    throw thrown;
  }
  isUp = true;
  const surroundings = {
    is_terminal: io.is_terminal,
    has_color: io.has_color,
    cwd: process.cwd(),
    exec_path: process.execPath,
    entry: process.argv[1] ?? '',
  };
  // The output is not awaited: a reader that does not read must not delay a signal.
  const shown = { ...config, server_threads: running.server_threads };
  void io.out(renderBanner(shown, running, surroundings));
  if (PARTS[command].gateway) {
    warnOfOpenAdmin(config, io);
    warnOfCertificate('GW_', config.gateway.tls, io);
  }
  if (PARTS[command].api) {
    warnOfCertificate('', config.api.tls, io);
    warnOfShortSecret(config, io);
    warnOfAnyToken(config, io);
    warnOfUnusedKeys(config, io);
  }
  const signal = await stopAsked;
  const notice = config.stop_notice_ms === 0 ? '' : `not ready for ${config.stop_notice_ms} ms, then `;
  io.err(`${signal}: ${notice}finishing requests in flight, ${DRAIN_DEADLINE_MS / 1000} s at most\n`);
  await running.stop();
  return EXIT.done;
}

/**
 * Resolves at the first SIGINT or SIGTERM. A second signal, from a user who does not want to wait for the drain, ends
 * the process. If threads are loading, the process ends when they have loaded, at the latest after 15 s.
 */
function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAt: number | undefined;
    const onSignal = (signal: NodeJS.Signals, number: number) => {
      firstAt ??= performance.now();
      resolve(signal);
      if (performance.now() - firstAt >= SAME_SIGNAL_MS) exitProcess(128 + number);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}

/**
 * RFC 7518, 3.2: an HMAC's key is at least as long as its hash. A shorter one is not refused, because tokens may
 * already exist.
 */
const JWT_SECRET_BYTES_MIN = 32;

function warnOfShortSecret({ auth }: Config, io: CliIo): void {
  const { jwt_secret, jwks_url } = auth;
  if (jwt_secret === null || jwks_url !== null || Buffer.byteLength(jwt_secret) >= JWT_SECRET_BYTES_MIN)
    return;
  io.err(`warning: AUTH_JWT_SECRET has fewer than ${JWT_SECRET_BYTES_MIN} bytes: anyone with a token may find it by trying, and
         then sign in as any user. openssl rand -base64 32 makes a good one.\n`);
}

/**
 * Warns that tokens of the provider's other applications would be accepted. With published keys, anyone may own such an
 * application.
 */
function warnOfAnyToken({ auth }: Config, io: CliIo): void {
  const { jwks_url, jwt_issuer, jwt_audience } = auth;
  if (jwks_url === null) return;
  if (jwt_audience === null)
    io.err(`warning: AUTH_JWT_AUDIENCE=any: tokens that the identity provider gave to any other application sign in here,
         and anyone who gets such a token can be its user here. Name this application's own audience.\n`);
  if (jwt_issuer === null)
    io.err(
      `warning: AUTH_JWT_ISSUER=any: tokens of every issuer whose keys are at AUTH_JWKS_URL sign in here.
         Set AUTH_JWT_ISSUER to one issuer.\n`,
    );
}

/**
 * Warns about certificates that clients will refuse, and keys that other users of the machine can read. Neither
 * prevents the start.
 */
function warnOfCertificate(prefix: '' | 'GW_', files: CertificateFiles | null, io: CliIo): void {
  if (files === null) return;
  const { valid_from_ms, valid_to_ms, is_key_open } = checkCertificate(files);
  const now = Date.now();
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  if (valid_to_ms < now)
    io.err(
      `warning: the certificate in ${prefix}TLS_CERT expired on ${day(valid_to_ms)}: clients refuse it.\n`,
    );
  if (valid_from_ms > now)
    io.err(`warning: the certificate in ${prefix}TLS_CERT is not valid before ${day(valid_from_ms)}.\n`);
  if (is_key_open)
    io.err(`warning: other users of this machine can read or change the key in ${prefix}TLS_KEY, and could impersonate this
         service to its clients. Run chmod 600 ${quoteForShell(files.key)}.\n`);
}

function warnOfUnusedKeys({ unused_keys }: Config, io: CliIo): void {
  for (const name of unused_keys)
    io.err(`warning: ${name} is set but unused, because the built-in engine (embedded:) needs no key.\n`);
}

function warnOfOpenAdmin(config: Config, io: CliIo): void {
  const { host } = config.gateway;
  if (isLoopback(host)) return;
  io.err(`warning: the gateway listens on ${host} and its /__gw/ routes are unauthenticated: anyone who can connect
         can stop the capture. Keep the gateway on a private network, or set GW_HOST=127.0.0.1.\n`);
}
