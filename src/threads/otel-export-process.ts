/**
 * Controls the exporting capture reader: starts it with the service, restarts it with a growing delay after
 * an unexpected end, and gives it time to send the remaining spans when the service stops. Main thread.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { type ExportProgress, GIVEN_UP_CAUSES, type GivenUpCause } from '../otel/export-progress.ts';
import { OTEL_EXPORT } from '../otel/limits.ts';
import { passOutputOn } from '../std/line-writer.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { readLastId } from '../storage/capture/last-id.ts';
import type { FromOtelExport, OtelExportOptions, ToOtelExport } from './otel-export-protocol.ts';

interface OtelExportParts {
  entry: URL;
  options: Omit<OtelExportOptions, 'gives_up_first'>;
  /** Called after each unexpected end of the process, and when the collector starts to fail or works again. */
  tell: (words: string, facts: object) => void;
}

/** The state in the form of `/__gw/stats`. */
interface OtelExportState {
  /** Without a query. */
  endpoint: string;
  exchanges: number;
  spans: number;
  given_up_by_cause: Record<GivenUpCause, number>;
  /** Stored exchanges that are not read yet. */
  waiting: number;
  position: number;
  /** Why the collector does not accept data now; null: it does. */
  failing: string | null;
  process: { pid: number | null; restarts: number };
}

export class OtelExportProcess {
  readonly #parts: OtelExportParts;
  readonly #givenUp = Object.fromEntries(GIVEN_UP_CAUSES.map((cause) => [cause, 0])) as Record<
    GivenUpCause,
    number
  >;
  #child: ChildProcess | null = null;
  #exchanges = 0;
  #spans = 0;
  #position: number;
  #lastId: number;
  #failing: string | null = null;
  #restarts = 0;
  /** Unexpected ends since the position last advanced. */
  #endsHere = 0;
  #restart: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(parts: OtelExportParts) {
    this.#parts = parts;
    this.#position = parts.options.after_id;
    this.#lastId = parts.options.after_id;
    this.#start();
  }

  state(): OtelExportState {
    const { url } = this.#parts.options.collector;
    return {
      endpoint: url.replace(/\?.*$/, ''),
      exchanges: this.#exchanges,
      spans: this.#spans,
      given_up_by_cause: { ...this.#givenUp },
      waiting: Math.max(0, this.#lastId - this.#position),
      position: this.#position,
      failing: this.#failing,
      process: { pid: this.#child?.pid ?? null, restarts: this.#restarts },
    };
  }

  /**
   * Ends the process within `OTEL_EXPORT.stop_ms`. Exchanges that are not exported by then are exported after
   * the next start.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    const child = this.#child;
    if (child === null) return;
    const ended = once(child, 'exit');
    this.#send(child, { type: 'finish' });
    const deadline = setTimeout(() => child.kill('SIGKILL'), OTEL_EXPORT.stop_ms);
    await ended;
    clearTimeout(deadline);
  }

  #start(): void {
    const { entry, options } = this.#parts;
    const flags = process.execArgv.filter(
      (flag) => !/^--(?:inspect|max-old-space-size|input-type|eval|e\b)/.test(flag),
    );
    const child = spawn(
      process.execPath,
      [...flags, `--max-old-space-size=${OTEL_EXPORT.heap_mb}`, '--v8-pool-size=1', fileURLToPath(entry)],
      { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], serialization: 'advanced' },
    );
    this.#child = child;
    passOutputOn([child.stdout, child.stderr]);
    child.on('message', (message) => this.#take((message as FromOtelExport).progress));
    child.once('exit', (code, signal) => this.#noteEnd(signal ?? `exit ${code}`));
    child.on('error', (error) => {
      if (child.pid === undefined) this.#noteEnd(error.message);
    });
    const gives_up_first = this.#endsHere >= OTEL_EXPORT.ends_per_batch;
    if (gives_up_first) this.#endsHere = 0;
    const after_id = Math.max(options.after_id, this.#position);
    this.#send(child, { type: 'open', options: { ...options, after_id, gives_up_first } });
  }

  /** Sends a message. If it cannot be sent, the process is about to end. */
  #send(child: ChildProcess, message: ToOtelExport): void {
    if (child.connected) child.send(message, undefined, undefined, () => {});
  }

  #take({ position, last_id, exchanges, spans, given_up, failing }: ExportProgress): void {
    if (position !== this.#position) this.#endsHere = 0;
    this.#position = position;
    this.#lastId = last_id;
    this.#exchanges += exchanges;
    this.#spans += spans;
    for (const cause of GIVEN_UP_CAUSES) this.#givenUp[cause] += given_up[cause] ?? 0;
    if ((failing === null) !== (this.#failing === null)) {
      const words =
        failing === null ? 'the collector accepts spans again' : 'the collector does not accept spans';
      this.#parts.tell(words, { reason: failing, waiting: last_id - position });
    }
    this.#failing = failing;
  }

  #noteEnd(reason: string): void {
    this.#child = null;
    if (this.#isClosed) return;
    const { first, last } = OTEL_EXPORT.restart_ms;
    const pause_ms = Math.min(last, first * 2 ** this.#endsHere);
    this.#endsHere += 1;
    this.#restarts += 1;
    this.#parts.tell('the process that exports spans ended', { reason, restart_in_ms: pause_ms });
    this.#restart = setTimeout(() => this.#start(), pause_ms).unref();
  }
}

/**
 * Starts the export. It continues after the exchange that an earlier export sent last. Without an earlier export, it
 * begins with what is captured from now on.
 * @returns null without a collector
 */
export function openOtelExport(
  { otel, capture, gateway, data_key, version }: Config,
  log: Log,
): OtelExportProcess | null {
  if (otel === null) return null;
  const { attributes, has_content, ...collector } = otel;
  return new OtelExportProcess({
    entry: resolveModuleUrl('./otel-export-entry.ts', import.meta.url),
    options: {
      db: capture.db,
      data_key,
      collector,
      has_content,
      source: {
        resource: { 'service.version': version, ...attributes },
        scope: { name: 'understudy.gateway', version },
      },
      servers: [
        ...gateway.routes.map(({ prefix, base, provider }) => ({ prefix, base, provider })),
        { prefix: '/gemini', base: gateway.gemini_base, provider: 'gemini' },
        { prefix: '/bedrock', base: gateway.bedrock_base, provider: 'bedrock' },
        { prefix: '/', base: gateway.upstream_base, provider: gateway.provider },
      ],
      position_path: `${capture.db}.otel-position`,
      after_id: readLastId(capture.db),
    },
    tell: (words, facts) => log.warn(facts, words),
  });
}
