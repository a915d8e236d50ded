/** Sends messages to runs. No other file does so. Server threads. */
import type { AuditEntry } from '../../src/domain/account.ts';
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';
import type { RunStart, RunTotals } from '../../src/domain/run.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { askOwner } from '../../src/runtime/ask-owner.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { RunRecords } from '../../src/storage/ports/run-records.ts';
import {
  type EvaluateReply,
  type KeyedStep,
  type KeyedStepsReply,
  RUN_REFUSALS,
  type RunProtocol,
  type RunRefusalCode,
  runAddress,
} from './protocol.ts';
import { packStep } from './step-message.ts';

/** Maximum number of interrupted deletions that one call resumes. The next call resumes further ones. */
const RUN_DELETIONS_RESUMED = 1_000;

export { RUN_REFUSALS } from './protocol.ts';

/** The run's organization, and the project to which the caller is limited (null: no limit). */
interface RunScope {
  org_id: string;
  project_id: string | null;
}

/**
 * Every method throws {@link CatalogueError}: `not_found` if the run does not exist, is being deleted, or belongs to
 * another tenant; `conflict` if the run's state does not allow the request; `unavailable` if the run does not answer,
 * or if a run with the id of a start is still being deleted; `internal` for a bug. Without an answer the outcome is
 * unknown, and repeating the request is safe. A result that is a text is JSON, which the caller receives unchanged.
 */
export class RunClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  start(start: RunStart): Promise<string> {
    return this.#ask(start.facts.org_id, start.facts.run_id, 'start', start);
  }

  /** Answers a repeated start; `not_found` if there was no start. */
  repeatStart(start: Omit<RunStart, 'profile'>): Promise<string> {
    return this.start({ ...start, profile: null, is_repeat_only: true });
  }

  step(scope: RunScope, runId: string, step: MonitorStep): Promise<string> {
    return this.#ask(scope.org_id, runId, 'step', packStep(scope.project_id, step));
  }

  /**
   * Records steps that telemetry reports. A step whose call was reported before is not recorded again.
   * @param model a run without a model takes this one; '': unknown
   */
  keyedSteps(
    { org_id, project_id }: RunScope,
    runId: string,
    steps: readonly KeyedStep[],
    model: string,
  ): Promise<KeyedStepsReply> {
    return this.#ask(org_id, runId, 'keyed_steps', { project_id, steps, model });
  }

  finish({ org_id, project_id }: RunScope, runId: string, outcome: string): Promise<string> {
    return this.#ask(org_id, runId, 'finish', { project_id, outcome });
  }

  evaluate({ org_id, project_id }: RunScope, runId: string): Promise<EvaluateReply> {
    return this.#ask(org_id, runId, 'evaluate', { project_id });
  }

  /** Returns the run's totals so far. */
  totals({ org_id, project_id }: RunScope, runId: string): Promise<RunTotals> {
    return this.#ask(org_id, runId, 'totals', { project_id });
  }

  /** Deletes a running or finished run, and writes the audit entry, if given. */
  async delete({ org_id, project_id }: RunScope, runId: string, audit: AuditEntry | null): Promise<void> {
    await this.#ask(org_id, runId, 'delete', { project_id, audit });
  }

  /** Resumes deletions that a stop or a crash interrupted. */
  async resumeDeletions(runs: Pick<RunRecords, 'listDeletions'>): Promise<void> {
    for (const { org_id, run_id } of runs.listDeletions(RUN_DELETIONS_RESUMED))
      await this.#ask(org_id, run_id, 'wake', null);
  }

  #ask<Name extends keyof RunProtocol>(
    orgId: string,
    runId: string,
    name: Name,
    request: RunProtocol[Name]['request'],
  ): Promise<RunProtocol[Name]['reply']> {
    // A run gives a repeated message the same answer.
    const options = { is_repeatable: true };
    return askOwner(this.#asker, runAddress(orgId, runId), name, request, options).catch(
      (thrown: unknown) => {
        throw toCatalogue(thrown);
      },
    ) as Promise<RunProtocol[Name]['reply']>;
  }
}

function toCatalogue(thrown: unknown): CatalogueError {
  const code = thrown instanceof RuntimeError ? thrown.code : '';
  if (code === 'run_deleting') return new CatalogueError('unavailable', RUN_REFUSALS.run_deleting);
  if (Object.hasOwn(RUN_REFUSALS, code)) {
    return new CatalogueError(
      code === 'run_not_found' ? 'not_found' : 'conflict',
      RUN_REFUSALS[code as RunRefusalCode],
    );
  }
  const mayPass = thrown instanceof RuntimeError && thrown.retryable;
  return new CatalogueError(mayPass ? 'unavailable' : 'internal', undefined, { cause: thrown });
}
