/**
 * Removes the data of a deleted project or organization, such as runs and their marks, traces, patterns, findings,
 * experiments and live events. It removes them in portions, so that other requests are handled in between. A record of
 * the deletion is kept until no late writes can arrive. With this record, the service continues an interrupted deletion
 * after a restart. Server threads.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FindingsClient } from '../../actors/findings-index/client.ts';
import { LiveHubClient } from '../../actors/live-hub/client.ts';
import { PatternIndexClient } from '../../actors/pattern-index/client.ts';
import { PatternMakerClient } from '../../actors/pattern-maker/client.ts';
import { RunClient } from '../../actors/run/client.ts';
import type { PatternScope } from '../domain/pattern.ts';
import { RETENTION } from '../domain/retention-clock.ts';
import { CatalogueError } from '../errors.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { forgetRunMarks } from '../storage/accounts/run-marks.ts';
import type { DeletedScope, Deletion } from '../storage/ports/deletions.ts';
import type { ListPlace, OldestFirst } from '../storage/ports/page.ts';
import type { Stores } from '../storage/ports/stores.ts';

/**
 * Maximum time for which the answer to a deletion waits for the removal. The rest is removed afterwards.
 */
const DELETION_WAIT_MS = 2_000;
/** How long after a deletion late writes may still arrive. Pattern making takes longest. */
const LATE_WRITES_MS = 600_000;
/** How long only the box that answered the request works on the deletion. */
const AT_WORK_MS = 60_000;

export interface DeletedContentParts {
  asker: Asker;
  stores: Stores;
  /** null: this process has no findings. */
  findings: FindingsClient | null;
  /** A vector store is configured. */
  has_patterns: boolean;
  /** Whether other boxes have the same stores; absent: no. */
  is_shared?: boolean;
  clock?: Clock;
}

export class DeletedContent {
  readonly #stores: Stores;
  readonly #runs: RunClient;
  readonly #traces: PatternMakerClient;
  readonly #patterns: PatternIndexClient | null;
  readonly #findings: FindingsClient | null;
  readonly #live: LiveHubClient;
  readonly #clock: Clock;
  readonly #isShared: boolean;

  constructor({
    asker,
    stores,
    findings,
    has_patterns,
    is_shared = false,
    clock = systemClock,
  }: DeletedContentParts) {
    this.#isShared = is_shared;
    this.#stores = stores;
    this.#runs = new RunClient(asker);
    this.#traces = new PatternMakerClient(asker, stores.accounts.traces);
    this.#patterns = has_patterns ? new PatternIndexClient(asker) : null;
    this.#findings = findings;
    this.#live = new LiveHubClient(asker);
    this.#clock = clock;
  }

  /**
   * Continues the unfinished deletions, one after another. A deletion that fails is tried again at the next call, and
   * does not delay the others. A deletion whose data is already removed is left alone until late writes can no longer
   * arrive. On boxes that share stores, a deletion that is younger than AT_WORK_MS is left alone, too.
   */
  async resume(): Promise<void> {
    const nowMs = this.#clock.wallMs();
    for (const deletion of [...this.#stores.accounts.deletions.list()]) {
      // A clock that was set back must not delay the deletion for ever.
      const age_ms = Math.abs(nowMs - deletion.at_ms);
      const is_late = age_ms > LATE_WRITES_MS;
      // During this time, the box that answered the request removes the data.
      const isAtWork = this.#isShared && age_ms < AT_WORK_MS;
      if (is_late || !(deletion.is_swept || isAtWork)) await this.#end(deletion, is_late).catch(() => {});
    }
  }

  /**
   * Removes all present data except counts, and records that this was done.
   * @throws CatalogueError if something cannot be removed now; {@link resume} removes the rest
   */
  async remove(scope: DeletedScope): Promise<void> {
    await this.#sweep(scope);
    await this.#stores.accounts.transact((tx) => tx.deletions.noteSweep(scope));
  }

  async #end(deletion: Deletion, isLate: boolean): Promise<void> {
    await this.remove(deletion);
    if (isLate) await this.#stores.accounts.transact((tx) => tx.deletions.end(deletion));
  }

  async #sweep({ org_id, project_id }: DeletedScope): Promise<void> {
    const { accounts } = this.#stores;
    const forget = () => this.#live.forget(org_id, project_id === null ? {} : { project_id });
    forget();
    await this.#removeFindings(org_id, project_id);
    await this.#sweepRuns({ org_id, project_id });
    await empty('traces', { org_id, project_id }, accounts.traces, (trace) =>
      this.#traces.delete(trace, null),
    );
    await this.#removePatterns('e1', org_id, project_id);
    if (project_id === null) await this.#removePatterns('e2', org_id, null);
    if (project_id === null) await accounts.removeAllOfOrganization(org_id);
    forget();
  }

  async #sweepRuns({ org_id, project_id }: DeletedScope): Promise<void> {
    const { accounts, run_records, experiments } = this.#stores;
    await empty('runs', { org_id, project_id }, run_records, async ({ run_id }) => {
      await this.#runs.delete({ org_id, project_id: null }, run_id, null);
      await forgetRunMarks(accounts, { org_id, run_id });
    });
    await experiments.removeRuns(org_id, project_id);
  }

  async #removePatterns(tier: 'e1' | 'e2', org_id: string, project_id: string | null): Promise<void> {
    const { accounts } = this.#stores;
    for (;;) {
      const found = accounts.patterns.listOf(tier, org_id, project_id, RETENTION.rows);
      if (found.length === 0) break;
      if (this.#patterns === null)
        throw new CatalogueError('unavailable', 'No vector store is configured (VECTOR_STORE_URL)');
      const scope: PatternScope = { tier, org_id, project_id: found[0]!.project_id };
      const meant = found.filter((pattern) => pattern.project_id === scope.project_id);
      await this.#patterns.remove(
        scope,
        meant.map(({ pattern_id }) => pattern_id),
        null,
      );
    }
    await accounts.removePatternSources(tier, org_id, project_id);
  }

  async #removeFindings(org_id: string, project_id: string | null): Promise<void> {
    if (this.#findings === null) return;
    const { accounts } = this.#stores;
    for (const codebase of [...accounts.findings.listCodebasesOf(org_id)])
      await this.#findings.clear({ ...codebase, project_id }, null);
  }
}

/**
 * Starts the removal, and waits at most DELETION_WAIT_MS until it is done or has failed. What is left then is removed
 * after the answer, or by the next {@link DeletedContent.resume}. Never rejects.
 */
export async function removeInTime(
  content: Pick<DeletedContent, 'remove'>,
  scope: DeletedScope,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DELETION_WAIT_MS);
  });
  await Promise.race([content.remove(scope).catch(() => {}), late]);
  clearTimeout(timer);
}

/**
 * Removes everything in a list, a portion at a time.
 * @param remove must also remove the item from the list
 * @throws CatalogueError the reason of a failure; `internal` if a list does not become empty
 */
async function empty<Item extends { place: ListPlace }>(
  what: string,
  scope: DeletedScope,
  list: { listOldest(portion: OldestFirst): Item[] },
  remove: (item: Item) => Promise<void>,
): Promise<void> {
  let before = '';
  for (;;) {
    const portion = { ...scope, before_ms: Number.POSITIVE_INFINITY, after: null, limit: RETENTION.rows };
    const items = list.listOldest(portion);
    if (items.length === 0) return;
    const first = JSON.stringify(items[0]!.place);
    if (first === before)
      throw new CatalogueError('internal', `The list of ${what} names one that does not exist`);
    before = first;
    await Promise.all(items.map((item) => remove(item).catch(passMissing)));
    await nextTurn();
  }
}

/** Ignores a `not_found`: another request has deleted the item. @throws any other error */
function passMissing(thrown: unknown): void {
  if (!(thrown instanceof CatalogueError && thrown.code === 'not_found')) throw thrown;
}
