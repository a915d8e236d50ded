/**
 * Handlers of `contract/otel.ts`: agents' telemetry becomes steps of runs, which are scored like posted steps. Server
 * threads.
 *
 * A request is answered when each of its steps is stored or refused for good. A sender without an answer sends the
 * request again, and each step still counts once (tool-steps.ts). Steps that are refused for good are reported as a
 * partial success, which exporters do not retry.
 */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { RUN_REFUSALS, RunClient } from '../../actors/run/client.ts';
import type { Call, HandlerReply, HandlersOf } from '../contract/handler.ts';
import { RUN_NAME_CHARACTERS, RUN_TASK_CHARACTERS, STEP_TEXT_CHARACTERS } from '../contract/limits.ts';
import type { OTEL } from '../contract/otel.ts';
import type { ApiRequest } from '../contract/route.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { findBuiltInProfile, type MonitorProfile } from '../domain/monitors/profiles.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { parseJsonBody } from '../http/json-body.ts';
import { DEFAULTS, ID_CHARACTERS } from '../limits.ts';
import { type OtlpEncoding, writePartialSuccess, writeStatus } from '../otel/answers.ts';
import { OTLP_BOUNDS } from '../otel/limits.ts';
import { countPointsJson, readLogsJson, readSpansJson } from '../otel/read-json.ts';
import { countPointsProtobuf, readLogsProtobuf, readSpansProtobuf } from '../otel/read-protobuf.ts';
import { OtlpFault, type OtlpLog, type OtlpSpan } from '../otel/records.ts';
import { findRunsOfLogs, findRunsOfSpans, type ToldRun } from '../otel/tool-steps.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Stores } from '../storage/ports/stores.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { HiddenRuns } from './hidden-runs.ts';
import { lookUpProfile } from './profiles.ts';
import { toStart } from './runs.ts';

const unpack = promisify(gunzip);

interface OtelServices {
  asker: Asker;
  stores: Stores;
  deleted: DeletedView;
  /** Largest body, before and after decompression; default: that of the server. */
  max_body_bytes?: number;
}

export function otelHandlers(services: OtelServices): HandlersOf<typeof OTEL> {
  const intake = new Intake(services);
  return {
    exportTraces: (call) =>
      intake.take(call, { protobuf: readSpansProtobuf, json: readSpansJson, find: findRunsOfSpans }),
    exportLogs: (call) =>
      intake.take(call, { protobuf: readLogsProtobuf, json: readLogsJson, find: findRunsOfLogs }),
    exportMetrics: (call) => intake.count(call),
  };
}

type OtlpCall = Pick<Call<(typeof OTEL)['exportTraces']>, 'tenant' | 'request'>;

const NO_METRICS = 'Metrics are not kept here; set OTEL_METRICS_EXPORTER=none to stop sending them';

/** The functions that read one signal. */
interface Signal<Record extends OtlpSpan | OtlpLog> {
  protobuf: (body: Uint8Array) => Record[];
  json: (body: unknown) => Record[];
  find: (records: readonly Record[]) => ToldRun[];
}

/** How many records were refused, and the first reason. */
interface Rejections {
  count: number;
  reason: string;
}

class Intake {
  readonly #runs: RunClient;
  readonly #hidden: HiddenRuns;
  readonly #stores: Stores;
  readonly #maxBytes: number;

  constructor({ asker, stores, deleted, max_body_bytes = DEFAULTS.MAX_BODY_BYTES }: OtelServices) {
    this.#runs = new RunClient(asker);
    this.#hidden = new HiddenRuns(stores.run_records, deleted);
    this.#stores = stores;
    this.#maxBytes = max_body_bytes;
  }

  take<Record extends OtlpSpan | OtlpLog>(
    { tenant, request }: OtlpCall,
    signal: Signal<Record>,
  ): Promise<HandlerReply> {
    return this.#read(
      request,
      (encoding, body) =>
        signal.find(
          encoding === 'json' ? signal.json(parseJsonBody(body, 'unrounded')) : signal.protobuf(body),
        ),
      (runs) => this.#log(tenant, runs),
    );
  }

  /** Accepts metrics but stores none, so that exporters that send metrics beside spans and logs report no errors. */
  count({ request }: OtlpCall): Promise<HandlerReply> {
    return this.#read(
      request,
      (encoding, body) =>
        encoding === 'json' ? countPointsJson(parseJsonBody(body)) : countPointsProtobuf(body),
      (count) => ({ count, reason: NO_METRICS }),
    );
  }

  async #read<Read>(
    request: ApiRequest,
    read: (encoding: OtlpEncoding, body: Uint8Array) => Read,
    use: (read: Read) => Rejections | Promise<Rejections>,
  ): Promise<HandlerReply> {
    const encoding = tellEncoding(request);
    if (encoding === null) return refuse('json', 415, 'Send application/x-protobuf or application/json');
    let found: Read;
    try {
      found = read(encoding, await this.#unpack(request));
    } catch (thrown) {
      return refuseFault(encoding, thrown);
    }
    return reply(encoding, 200, writePartialSuccess(encoding, request.path, await use(found)));
  }

  /**
   * Decompresses the body of a request.
   * @throws OtlpFault for a body that is not gzip or becomes too large; CatalogueError `encoded_body` for another
   *   encoding
   */
  async #unpack({ headers, body }: ApiRequest): Promise<Uint8Array> {
    const encoding = headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity';
    if (encoding === 'identity' || encoding === '') return body;
    if (encoding !== 'gzip')
      throw new CatalogueError('encoded_body', 'The only supported Content-Encoding is gzip');
    try {
      return await unpack(body, { maxOutputLength: this.#maxBytes });
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
        throw new OtlpFault(`The body decompresses to more than ${this.#maxBytes} bytes`, true);
      throw new OtlpFault('The body is not valid gzip');
    }
  }

  /**
   * Logs the steps of the runs, at most OTLP_BOUNDS.steps. Returns how many were refused, and the first reason.
   * @throws CatalogueError for a temporary failure: the sender can repeat the whole request
   */
  async #log(tenant: Tenant, runs: readonly ToldRun[]): Promise<Rejections> {
    const rejections: Rejections = { count: 0, reason: '' };
    const reject = (count: number, reason: string) => {
      rejections.count += count;
      rejections.reason ||= reason;
    };
    let left = OTLP_BOUNDS.steps;
    for (const run of runs) {
      if (run.steps.length === 0 && run.task === '' && run.model === '') continue;
      const steps = run.steps.slice(0, left);
      left -= steps.length;
      if (steps.length < run.steps.length)
        reject(run.steps.length - steps.length, `A request may hold at most ${OTLP_BOUNDS.steps} tool calls`);
      try {
        await this.#logRun(tenant, run, steps, reject);
      } catch (thrown) {
        reject(steps.length, `Run ${run.run_id}: ${explainRefusal(thrown)}`);
      }
    }
    return rejections;
  }

  /**
   * Logs the steps of one run, and starts the run if it does not exist.
   * @throws CatalogueError if the run refuses the steps or cannot be started
   */
  async #logRun(
    tenant: Tenant,
    run: ToldRun,
    steps: ToldRun['steps'],
    reject: (count: number, reason: string) => void,
  ): Promise<void> {
    this.#hidden.checkFree(tenant.org_id, run.run_id);
    // Start the run before its first tool call is logged, because the task can only be set at the
    // start.
    let isStarted = run.task !== '' && (await this.#start(tenant, run));
    const model = cut(run.model, RUN_NAME_CHARACTERS);
    if (steps.length === 0 && model !== '') await this.#nameModel(tenant, run.run_id, model);
    for (let from = 0; from < steps.length; from += OTLP_BOUNDS.steps_at_once) {
      const some = steps
        .slice(from, from + OTLP_BOUNDS.steps_at_once)
        .map(({ key, told_by, call, step }) => ({ key, told_by, call, step: boundStep(step) }));
      const log = () => this.#runs.keyedSteps(tenant, run.run_id, some, model);
      const { refused } = await log().catch(async (thrown: unknown) => {
        const isMissing = thrown instanceof CatalogueError && thrown.code === 'not_found';
        if (!isMissing || isStarted) throw thrown;
        isStarted = await this.#start(tenant, run);
        return log();
      });
      if (refused > 0) reject(refused, `Run ${run.run_id}: ${RUN_REFUSALS.run_finished}`);
    }
  }

  /**
   * Tells a run its model. Agents send prompts and the first answers in different requests, so a run is often started
   * before its model is known. Does nothing if there is no such run, because its first step will start it.
   */
  async #nameModel(tenant: Tenant, runId: string, model: string): Promise<void> {
    await this.#runs.keyedSteps(tenant, runId, [], model).catch((thrown: unknown) => {
      if (!(thrown instanceof CatalogueError) || thrown.code !== 'not_found') throw thrown;
    });
  }

  /**
   * Starts a run. Resolves to true, even when a concurrent request started the run first. Rejects with a CatalogueError
   * or a SchemaViolation for a run that cannot be started.
   */
  async #start(tenant: Tenant, run: ToldRun): Promise<true> {
    const { start, profile } = this.#describe(tenant, run);
    const isBuiltIn = findBuiltInProfile(profile.name) !== null;
    try {
      await this.#runs.start({ ...start, profile: isBuiltIn ? null : profile });
    } catch (thrown) {
      if (!(thrown instanceof CatalogueError) || thrown.code !== 'conflict') throw thrown;
    }
    return true;
  }

  #describe(tenant: Tenant, run: ToldRun) {
    const task_profile = run.task_profile || 'coding';
    const profile: MonitorProfile | undefined = lookUpProfile(
      this.#stores.accounts,
      tenant.org_id,
      task_profile,
    );
    if (profile === undefined)
      throw new CatalogueError('malformed_request', 'svc.task_profile: unknown profile');
    const start = toStart(tenant, {
      run_id: run.run_id,
      agent_name: cut(run.agent_name, RUN_NAME_CHARACTERS),
      task: cut(run.task, RUN_TASK_CHARACTERS),
      model: cut(run.model, RUN_NAME_CHARACTERS),
      framework: cut(run.framework, RUN_NAME_CHARACTERS),
      task_profile,
      codebase_id: cut(run.codebase_id, ID_CHARACTERS),
    });
    return { start, profile };
  }
}

/** Reads the encoding from the Content-Type; null: OTLP does not define this type. */
function tellEncoding({ headers }: ApiRequest): OtlpEncoding | null {
  const [type = ''] = (headers.get('content-type') ?? '').split(';', 1);
  switch (type.trim().toLowerCase()) {
    case 'application/json':
      return 'json';
    case 'application/x-protobuf':
      return 'protobuf';
    default:
      return null;
  }
}

/** Explains why a run permanently refuses a step. @throws temporary failures and internal errors */
function explainRefusal(thrown: unknown): string {
  if (thrown instanceof SchemaViolation) return thrown.violations[0]?.msg ?? 'refused';
  if (thrown instanceof CatalogueError && thrown.status < 500) return thrown.message;
  throw thrown;
}

/** Makes the refusal of a request that cannot be read. @throws errors that are not the sender's fault */
function refuseFault(encoding: OtlpEncoding, thrown: unknown): HandlerReply {
  if (thrown instanceof OtlpFault) return refuse(encoding, thrown.is_too_much ? 413 : 400, thrown.message);
  if (thrown instanceof CatalogueError && thrown.status < 500)
    return refuse(encoding, thrown.status, thrown.message);
  throw thrown;
}

function refuse(encoding: OtlpEncoding, status: number, message: string): HandlerReply {
  return reply(encoding, status, writeStatus(encoding, message));
}

function reply(encoding: OtlpEncoding, status: number, bytes: Uint8Array): HandlerReply {
  const media_type = encoding === 'json' ? 'application/json' : 'application/x-protobuf';
  return { status, bytes: { media_type, bytes } };
}

function boundStep(step: ToldRun['steps'][number]['step']): ToldRun['steps'][number]['step'] {
  return {
    ...step,
    action: cut(step.action, STEP_TEXT_CHARACTERS),
    action_input: step.action_input === null ? null : cut(step.action_input, STEP_TEXT_CHARACTERS),
    thought: cut(step.thought, STEP_TEXT_CHARACTERS),
    observation: step.observation === null ? null : cut(step.observation, STEP_TEXT_CHARACTERS),
  };
}

/** Cuts a text at this number of UTF-16 units, and so at this number of characters or earlier. */
function cut(text: string, characters: number): string {
  return text.length <= characters ? text : text.slice(0, characters).toWellFormed();
}
