/**
 * Starts all parts of the process in order, and stops them in reverse order. The only file that knows all parts. Main
 * thread.
 */

import { dirname } from 'node:path';
import { CaptureWriterClient } from '../actors/capture-writer/client.ts';
import { closeMappedMemory, MemoryPart, makeMappedMemory } from '../actors/capture-writer/mapped-memory.ts';
import { RateShares } from '../actors/rate-bucket/shares.ts';
import { RATE_SLOTS } from '../actors/rate-bucket/table.ts';
import { loadEmbeddedSecret } from './auth/embedded-secret.ts';
import { OWNER } from './auth/owner.ts';
import { OWNER_TOKEN_HOURS, signUserToken } from './auth/sign-token.ts';
import { StreamTickets } from './auth/stream-tickets.ts';
import { ConfigError } from './config/config-error.ts';
import { type Config, silenceModelRuntime } from './config.ts';
import type { FramingGuard } from './http/connection-watch.ts';
import { loadServer } from './http/server.ts';
import { createLog, type Log } from './log.ts';
import { createDeferred } from './std/deferred.ts';
import { waitAtEnd } from './std/last-wait.ts';
import { quoteForShell } from './std/shell-word.ts';
import { IdleWipes } from './storage/idle-wipe.ts';
import {
  type DatabasePaths,
  databasePaths,
  keepCheckpoints,
  servicePaths,
  viewPath,
} from './storage/lmdb/stores.ts';
import { findLoosePlaces } from './storage/loose-places.ts';
import type { StoreSeat } from './storage/shared/seat.ts';
import { StoreReads } from './storage/store-reads.ts';
import { allocateShared, type Starting, startActors } from './threads/actor-start.ts';
import { checkReadFrom, openCapture } from './threads/capture-start.ts';
import { logDamagedValues } from './threads/damage-log.ts';
import { CAPTURE_STOP_MS } from './threads/gateway-server.ts';
import { assertLimitRelations } from './threads/limit-relations.ts';
import { openOtelExport } from './threads/otel-export-process.ts';
import { ProcessClaims } from './threads/process-claims.ts';
import { QuietWatch } from './threads/quiet-watch.ts';
import { type Capture, guardOf, startServers } from './threads/server-start.ts';
import type { Parts } from './threads/server-thread.ts';
import { ServiceParts } from './threads/service-parts.ts';
import { StopNotice } from './threads/stop-notice.ts';

/** How long the stop of a start that was given up may take. */
const GIVEN_UP_START_MS = 8_000;

const WORDS_OF_PLAIN_SERVER =
  "Node's own HTTP server takes its place, which is slower; Node 22 has the faster one, and HTTP_SERVER=node hides this line";

const WORDS_OF_FAILED_CHECKPOINT =
  'runs.mdb could not be synced: until the disk is in order and the service was started again, a power cut may cost the file';

/** The running parts after a start. */
export interface RunningUnderstudy {
  /** Without a trailing slash; null for a listener that was not asked for. */
  api_url: string | null;
  gateway_url: string | null;
  /** The value of HTTPS_PROXY for clients; null without a proxy. */
  proxy_url: string | null;
  framing_guard: FramingGuard;
  server_threads: number;
  /** A token of the first user, for the link on the terminal; null if an identity provider signs the tokens. */
  owner_token: string | null;
  /** Drains and closes everything. Called once. */
  stop(): Promise<void>;
}

/**
 * Starts a service with the listeners that are asked for.
 * @param givingUp ends the start when it is aborted, however far the start is
 * @throws Error when a database cannot be opened or an address cannot be bound; the reason of `givingUp`. Everything
 *   that was started is then stopped again
 */
export async function startUnderstudy(
  config: Config,
  parts: Parts,
  givingUp?: AbortSignal,
): Promise<RunningUnderstudy> {
  assertLimitRelations();
  silenceModelRuntime();
  const running = new ServiceParts();
  const stop = () => running.stop();
  const starting = startAll(config, parts, running, givingUp);
  try {
    return { ...(await unlessAborted(starting, givingUp)), stop };
  } catch (thrown) {
    // Parts that a start begins after it was given up are stopped too: a thread that starts while the process exits can keep the
    // process from exiting.
    const settled = starting.then(stop, stop).catch(() => {});
    await stop();
    // A step of the start may wait for a part that has just been stopped.
    await waitAtEnd(settled, GIVEN_UP_START_MS);
    throw thrown;
  }
}

/** Settles like the work, or rejects as soon as the signal is aborted. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const aborted = createDeferred<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function startAll(
  given: Config,
  parts: Parts,
  running: ServiceParts,
  givingUp: AbortSignal | undefined,
): Promise<Omit<RunningUnderstudy, 'stop'>> {
  const log = createLog(given.log_level);
  logDamagedValues(log);
  const isCapturing = parts.gateway && given.capture.enabled;
  checkReadFrom(given.capture, isCapturing);
  if (parts.api) checkShared(given);
  const claims = await running.start({
    start: () => new ProcessClaims(given, log, givingUp),
    stop: (taken) => taken.release(),
  });
  await claims.take({ api: parts.api, capture: isCapturing });
  givingUp?.throwIfAborted();
  const config = await withServer(withTokenSecret(given, parts), log);
  const shared = allocateShared();
  // These parts run from before the first write to a database until after the last one.
  if (parts.api) {
    const store = await running.start({
      start: () => openSharedStore(config, shared, log),
      stop: (opened) => opened?.close(),
    });
    shared.seat = store?.seat ?? null;
    if (shared.seat !== null) StreamTickets.derive(shared.stream_tickets, ticketSecrets(config, shared.seat));
    const paths = servicePaths(config, shared.seat);
    await running.start({
      start: () => (store === null ? keepRunsCheckpointed(config, log) : null),
      stop: (kept) => kept?.stop(),
    });
    await running.start({ start: () => wipeDeletedContent(paths, log), stop: (wipes) => wipes.stop() });
  }
  const reads = await running.start({
    start: () => (parts.api ? watchReads(servicePaths(config, shared.seat), log) : null),
    stop: (watch) => watch?.stop(),
  });
  const memory = await running.start({
    start: () =>
      isCapturing ? makeMappedMemory(config.capture.max_queue_bytes, config.server_threads) : null,
    stop: (made) => (made === null ? undefined : closeMappedMemory(made)),
  });
  await running.start({
    start: () => new QuietWatch({ collects: false, trims: true }),
    stop: (watch) => watch.stop(),
  });
  const notice = new StopNotice();
  const starting: Starting = { config, parts, shared, memory, reads, notice, log, running };
  const actors = await startActors(starting);
  const ownMemory = memory === null ? null : new MemoryPart(memory, 0, config.server_threads);
  const writer = isCapturing ? new CaptureWriterClient(actors.client, ownMemory) : null;
  const capture = writer === null ? { writer, otel: null } : await startCapture(starting, writer);
  // Warn after everything that may refuse the start, because a refused start prints only one line.
  warnOfLoosePlaces(given, log);
  const { first, proxy } = await startServers(starting, actors, capture);
  await running.start({ start: () => notice, stop: (given) => given.give(config.stop_notice_ms) });
  await running.start({ start: () => claims, stop: (taken) => taken.announceEnd() });
  const isOwnSecret = config.auth.jwt_secret !== given.auth.jwt_secret;
  return {
    api_url: first.api_url,
    gateway_url: first.gateway_url,
    proxy_url: proxy?.url ?? null,
    framing_guard: guardOf(config),
    server_threads: config.server_threads,
    owner_token: isOwnSecret ? await signOwnerToken(config) : null,
  };
}

/**
 * Loads the HTTP server, and returns the configuration for it: with Node's own server, there is one server thread.
 * @throws ConfigError when uWebSockets.js is asked for and has no binary
 */
async function withServer(config: Config, log: Log): Promise<Config> {
  const machine = `Node ${process.versions.node} on ${process.platform}-${process.arch}`;
  const kind = await loadServer(config.http_server).catch(() => {
    const advice = `uWebSockets.js has no binary for ${machine}: unset HTTP_SERVER, or use Node 22 on Linux with glibc`;
    throw new ConfigError('HTTP_SERVER', 'uwebsockets', advice);
  });
  if (kind === 'uwebsockets') return config;
  if (config.http_server === 'auto')
    log.warn(`uWebSockets.js has no binary for ${machine}: ${WORDS_OF_PLAIN_SERVER}`);
  return { ...config, server_threads: 1 };
}

function keepRunsCheckpointed({ data_dir, data_key }: Config, log: Log) {
  return keepCheckpoints(databasePaths(data_dir, data_key), (thrown) =>
    log.error({ err: thrown, data_dir }, WORDS_OF_FAILED_CHECKPOINT),
  );
}

/** Checks that the variables are set which a box needs to share its main database. @throws ConfigError */
function checkShared({ shared_database, auth }: Config): void {
  if (shared_database === null) return;
  if (auth.jwt_secret === null && auth.jwks_url === null)
    throw new ConfigError(
      'AUTH_JWT_SECRET',
      '',
      'boxes that share a database (AUTH_DB_URL=postgres://…) must all have the same secret: set AUTH_JWT_SECRET or AUTH_JWKS_URL',
    );
}

/** Secrets that only the boxes of the same database know. */
function ticketSecrets({ auth, data_key }: Config, { identity }: StoreSeat): Uint8Array[] {
  const secret = auth.jwks_url === null ? auth.jwt_secret : null;
  return [Buffer.from(identity), Buffer.from(secret ?? ''), data_key ?? Buffer.alloc(0)];
}

/**
 * Opens the database that several boxes share.
 * @returns null for a box with its own database
 * @throws Error with a one-line message if the database cannot be used
 */
async function openSharedStore(config: Config, shared: ReturnType<typeof allocateShared>, log: Log) {
  const { shared_database: address, data_dir, data_key } = config;
  if (address === null) return null;
  const { SharedStore } = await import('./threads/shared-store.ts');
  const place = {
    address,
    path: viewPath(data_dir),
    data_key,
    live_event_days: config.retention_days.live_events,
    rate_limit: { rate_per_s: config.api.rate_limit_per_sec, burst: config.api.rate_limit_burst },
  };
  const { revocations, user_epochs, rate_table } = shared;
  const rate_shares = RateShares.allocate(RATE_SLOTS);
  shared.rate_shares = rate_shares;
  return SharedStore.start(place, { revocations, user_epochs, rate_table, rate_shares }, log);
}

/** Overwrites deleted content while the service is idle. */
function wipeDeletedContent(paths: DatabasePaths, log: Log): IdleWipes {
  return new IdleWipes(paths, {
    onWiped: (wiped) => log.info(wiped, 'deleted content was overwritten in the database file'),
    onFailure: (path, thrown) =>
      log.warn({ path, err: thrown }, 'deleted content could not be overwritten: the next start tries again'),
  });
}

/** Ends processes that read a database in one transaction for too long. */
function watchReads(paths: DatabasePaths, log: Log): StoreReads {
  return new StoreReads(paths, {
    tell: (path, { pid, seconds, done }) => log.warn({ path, pid, seconds }, OLD_READ_WORDS[done]),
  });
}

const OLD_READ_WORDS = {
  told: 'a process has been reading a database in one transaction: the file grows with each write until that process ends',
  asked:
    'a process was reading a database in one transaction for too long: that process was asked to end (SIGTERM)',
  killed:
    'a process was reading a database in one transaction for too long: that process was killed (SIGKILL)',
} as const;

async function startCapture(
  { config, log, running }: Starting,
  writer: CaptureWriterClient,
): Promise<Capture> {
  await openCapture(writer, config.capture);
  // The export stops after the last flush, so that the exchanges captured last are exported.
  const otel = await running.start({
    start: () => openOtelExport(config, log),
    stop: (exporting) => exporting?.close(),
  });
  await running.start({
    start: () => writer,
    stop: (opened) => opened.flush(CAPTURE_STOP_MS).catch(() => {}),
  });
  return { writer, otel };
}

/**
 * Warns about existing files that other users of the machine may read. New files are always closed to other users, and
 * only the operator may close existing ones.
 */
function warnOfLoosePlaces({ data_dir, capture }: Config, log: Log): void {
  const loose = findLoosePlaces(data_dir, capture.db);
  if (loose === null) return;
  const { count, is_cut, first } = loose;
  const isElsewhere = dirname(capture.db) !== data_dir;
  const besides = isElsewhere ? ` ${quoteForShell(capture.db.replace(/\.[^./]*$/, ''))}.*` : '';
  log.warn(
    { places: count, more: is_cut, first },
    `other users of this machine may use what is kept here; to close it: chmod -R go= ${quoteForShell(data_dir)}${besides}`,
  );
}

/** The configuration with the embedded secret, where accounts are embedded and no identity provider signs tokens. */
function withTokenSecret(config: Config, parts: Parts): Config {
  const { auth, engines } = config;
  const isOwn = engines.accounts === 'embedded:' && auth.jwt_secret === null && auth.jwks_url === null;
  if (!parts.api || !isOwn) return config;
  return { ...config, auth: { ...auth, jwt_secret: loadEmbeddedSecret(config.data_dir) } };
}

/** A token for the user who started the process. It names the same user at every start. */
function signOwnerToken({ auth }: Config): Promise<string> {
  const lifetimeS = OWNER_TOKEN_HOURS * 3_600;
  return signUserToken(auth, auth.jwt_secret!, {
    ...OWNER,
    lifetimeS,
    nowMs: Date.now(),
  });
}
