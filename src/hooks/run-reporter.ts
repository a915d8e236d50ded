/**
 * Reports one hook event to the service, and receives the text for the agent, within a deadline.
 * Command line.
 */
import { boundStep, cutText } from '../client/step.ts';
import { type Answer, Transport } from '../client/transport.ts';
import type { HookEvent, HookRun } from './event.ts';
import { RunJournal } from './run-journal.ts';

interface ReporterOptions {
  base_url: URL;
  api_key: string;
  /** '' for none. */
  codebase_id: string;
  task_profile: string;
  /** Time at which every request is given up, counted from the start of the process (`performance.now()`). */
  deadline_ms: number;
  folder?: string;
}

/** The service's maximum length of a task. */
const TASK_UNITS = 65_536;
/**
 * Statuses by which a running service refuses all requests of this user. After one of these, or a status of 500 or more,
 * the service is not called for a while.
 */
const REFUSALS = new Set([401, 403, 429]);

/** The service does not accept this step, for example because it is too large. It may accept the next one. */
class StepRefusedError extends Error {
  override readonly name = 'StepRefusedError';
}

/**
 * Reports an event to the service.
 * @returns the text that the agent should read now; otherwise null
 * @throws StepRefusedError if the service does not accept the step; Error if the service does not answer, or refuses
 *   all requests of this user. After such an Error the service is not called for a while, and this function throws
 *   without calling it
 */
export async function reportEvent(
  event: Exclude<HookEvent, { kind: 'session' }>,
  options: ReporterOptions,
): Promise<string | null> {
  const journal = new RunJournal(event.run.run_id, options.folder);
  // Count the step even if it is not reported, so that later steps keep their indexes.
  const index = event.kind === 'step' ? journal.indexOf(event.key) : 0;
  if (journal.isOut) throw new Error('the service did not answer a moment ago');
  const reporter = new RunReporter(event.run, journal, options);
  try {
    switch (event.kind) {
      case 'task':
        if (!journal.isStarted) await reporter.start(event.task);
        return null;
      case 'step':
        return await reporter.step(index, event);
      case 'end':
        await reporter.finish(event.outcome);
        return null;
    }
  } catch (thrown) {
    if (!(thrown instanceof StepRefusedError)) journal.noteOutage();
    throw thrown;
  } finally {
    reporter.close();
  }
}

class RunReporter {
  readonly #run: HookRun;
  readonly #journal: RunJournal;
  readonly #options: ReporterOptions;
  readonly #transport: Transport;

  constructor(run: HookRun, journal: RunJournal, options: ReporterOptions) {
    this.#run = run;
    this.#journal = journal;
    this.#options = options;
    this.#transport = new Transport(options.base_url, {
      authorization: `Bearer ${options.api_key}`,
      'user-agent': 'understudy-hook',
    });
  }

  /** The id of the run. A session that was resumed after its end continues as a second run. */
  get #runId(): string {
    const { resumptions } = this.#journal;
    return resumptions === 0 ? this.#run.run_id : `${this.#run.run_id}~${resumptions + 1}`;
  }

  async start(task: string): Promise<void> {
    const { agent_name, framework, model } = this.#run;
    const { codebase_id, task_profile } = this.#options;
    const { status } = await this.#post('/v1/monitor/runs', {
      run_id: this.#runId,
      agent_name,
      framework,
      model,
      task: cutText(task, TASK_UNITS),
      codebase_id,
      task_profile,
    });
    // 409: another hook of the session has started the run with other values.
    if (status === 200 || status === 409) this.#journal.noteStarted();
  }

  async step(
    index: number,
    { step, unknown, tellable }: Extract<HookEvent, { kind: 'step' }>,
  ): Promise<string | null> {
    if (!this.#journal.isStarted) await this.start('');
    const { body } = boundStep(index, step);
    for (const field of unknown) body[field] = null;
    const log = () => this.#post(`${this.#path}/steps`, body);
    let answer = await log();
    // The service has deleted or finished the run although the session continues.
    if (answer.status === 404 || answer.status === 409) {
      if (answer.status === 409) this.#journal.noteResumed();
      await this.start('');
      answer = await log();
    }
    if (answer.status !== 200)
      throw new StepRefusedError(`HTTP ${answer.status} ${answer.body.slice(0, 200)}`);
    if (!tellable || !hasFired(answer)) return null;
    const { status, body: text } = await this.#post('/v1/monitors/evaluate', { run_id: this.#runId });
    return status === 200 ? readIntervention(text) : null;
  }

  async finish(outcome: string): Promise<void> {
    if (this.#journal.isStarted) await this.#post(`${this.#path}/finish`, { outcome });
  }

  close(): void {
    this.#transport.close();
  }

  get #path(): string {
    return `/v1/monitor/runs/${encodeURIComponent(this.#runId)}`;
  }

  /** Sends a request. @throws Error for an answer after which the service is not called for a while */
  async #post(path: string, body: object): Promise<Answer> {
    const { base_url, deadline_ms } = this.#options;
    const answer = await this.#transport.send({
      method: 'POST',
      target: `${base_url.pathname.replace(/\/+$/, '')}${path}`,
      body: JSON.stringify(body),
      timeoutMs: Math.max(1, Math.round(deadline_ms - performance.now())),
      isBackground: false,
    });
    if (answer.status >= 500 || REFUSALS.has(answer.status))
      throw new Error(`HTTP ${answer.status} ${answer.body.slice(0, 200)}`);
    return answer;
  }
}

function hasFired({ body }: Answer): boolean {
  const { fired } = JSON.parse(body) as { fired?: unknown };
  return Array.isArray(fired) && fired.length > 0;
}

function readIntervention(body: string): string | null {
  const { inject, intervention_text } = JSON.parse(body) as Record<string, unknown>;
  return inject === true && typeof intervention_text === 'string' && intervention_text !== ''
    ? intervention_text
    : null;
}
