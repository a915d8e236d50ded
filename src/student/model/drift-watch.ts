/**
 * Which covered steps are audited, and what follows from an audit: the upstream answers the step in the student's place,
 * and what the student would have said is compared with that. For each agent and kind of answer a sequential test
 * (src/student/model/drift-test.ts) says when the student no longer keeps its promise; then that kind, or the agent, is suspended.
 * Pure but for the draw and the clock that it is given. The student's thread, which has all server threads' steps.
 *
 * A kind is `young` until enough of its answers were compared, then `trusted`. After one disagreement it is `suspect`: each
 * of its steps is audited, so that nothing wrong is served meanwhile, until it is cleared or suspended. `suspended` ends
 * with a student that was made later, which begins as `suspect`, or by an operator's word.
 */

import { DRIFT } from '../../limits.ts';
import {
  CLEARED,
  type DriftState,
  doubt,
  evidenceOf,
  observe,
  startDrift,
  startSuspicion,
} from './drift-test.ts';

/** What a student promises, as its manifest says. */
export interface StudentTerms {
  version: number;
  made_at_ms: number;
  /** Largest share of served steps that may be wrong. */
  promise: number;
  /** null: it does not expire. */
  valid_until_ms: number | null;
}

export type KindState = 'young' | 'trusted' | 'suspect' | 'suspended';

/** What is known of one kind of answer of one agent. */
interface WatchedKind extends DriftState {
  /** Log likelihood ratio while it is suspect, else null. */
  suspicion: number | null;
  suspended_at_ms: number | null;
}

interface WatchedAgent extends DriftState {
  suspended_at_ms: number | null;
  /** In the order in which they were first seen, which their shares of α follow. */
  kinds: Map<string, WatchedKind>;
}

/** As it is kept in a file. */
export interface DriftCopy {
  version: number;
  agents: [string, Omit<WatchedAgent, 'kinds'> & { kinds: [string, WatchedKind][] }][];
}

/** What an audit has led to. */
export type Suspension = { agent: string; kind: string | null; compared: number; wrong: number };

/** An agent as the stats show it. */
export interface WatchedAgentReport {
  agent: string;
  state: 'serving' | 'suspended';
  /** By whom, while it is; else null. */
  suspended_by: 'audit' | 'operator' | null;
  compared: number;
  wrong: number;
  kinds: { kind: string; state: KindState; compared: number; wrong: number; evidence: number }[];
}

export class DriftWatch {
  readonly #terms: StudentTerms;
  readonly #share: number;
  readonly #random: () => number;
  readonly #now: () => number;
  readonly #agents = new Map<string, WatchedAgent>();

  /**
   * @param share of covered steps that is audited of a kind that is trusted; 0: none, and nothing is ever noticed
   * @param kept of the student before, or of this one before a restart
   */
  constructor(
    terms: StudentTerms,
    share: number,
    random: () => number,
    now: () => number,
    kept: DriftCopy | null = null,
  ) {
    this.#terms = { ...terms, promise: Math.min(0.5, Math.max(0.005, terms.promise)) };
    this.#share = share;
    this.#random = random;
    this.#now = now;
    if (kept !== null) this.#restore(kept);
  }

  /** What becomes of a covered step: it is served, audited, or the upstream's. */
  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended' {
    const watched = this.#agents.get(agent);
    if (watched !== undefined && watched.suspended_at_ms !== null) return 'suspended';
    const its = watched?.kinds.get(this.#nameOf(watched, kind));
    if (its !== undefined && its.suspended_at_ms !== null) return 'suspended';
    if (this.#share === 0) return 'serve';
    if (its !== undefined && its.suspicion !== null) return 'audit';
    return this.#random() < this.#shareOf(its?.observed ?? 0) ? 'audit' : 'serve';
  }

  /** An audited step has been compared. @returns what it has led to; null when everything goes on */
  note(agent: string, kind: string, agreed: boolean): Suspension | null {
    const watched = this.#watch(agent);
    if (watched === null) return null;
    const name = this.#nameOf(watched, kind);
    let its = watched.kinds.get(name);
    if (its === undefined) {
      its = { ...startDrift(), suspicion: null, suspended_at_ms: null };
      watched.kinds.set(name, its);
    }
    const { promise } = this.#terms;
    if (its.suspicion !== null) {
      const left = doubt(its.suspicion, !agreed, promise);
      its.suspicion = left <= -CLEARED ? null : left;
    } else if (!agreed) its.suspicion = startSuspicion(promise);
    const ofKind = observe(its, !agreed, promise);
    const ofAgent = observe(watched, !agreed, promise);
    const place = [...watched.kinds.keys()].indexOf(name) + 1;
    if (ofAgent >= 1 / DRIFT.alpha_agent && watched.suspended_at_ms === null) {
      watched.suspended_at_ms = this.#now();
      return { agent, kind: null, compared: watched.observed, wrong: watched.wrong };
    }
    // 1/2 + 1/6 + 1/12 + … is 1: so many kinds as there may be have their share.
    if (ofKind >= (place * (place + 1)) / DRIFT.alpha_kinds && its.suspended_at_ms === null) {
      its.suspended_at_ms = this.#now();
      return { agent, kind: name, compared: its.observed, wrong: its.wrong };
    }
    return null;
  }

  /** An operator takes back a suspension: what comes is audited until it is cleared. @param kind null: all of the agent */
  resume(agent: string, kind: string | null, beforeMs: number): boolean {
    const watched = this.#agents.get(agent);
    if (watched === undefined) return false;
    let isChanged = false;
    if (kind === null && watched.suspended_at_ms !== null && watched.suspended_at_ms <= beforeMs) {
      Object.assign(watched, startDrift(), { suspended_at_ms: null });
      for (const its of watched.kinds.values()) its.suspicion ??= 0;
      isChanged = true;
    }
    for (const [name, its] of watched.kinds) {
      if ((kind !== null && kind !== name) || its.suspended_at_ms === null) continue;
      if (its.suspended_at_ms > beforeMs) continue;
      Object.assign(its, startDrift(), { suspended_at_ms: null, suspicion: 0 });
      isChanged = true;
    }
    return isChanged;
  }

  report(): WatchedAgentReport[] {
    return [...this.#agents].map(([agent, watched]) => ({
      agent,
      state: watched.suspended_at_ms === null ? 'serving' : 'suspended',
      suspended_by: watched.suspended_at_ms === null ? null : 'audit',
      compared: watched.observed,
      wrong: watched.wrong,
      kinds: [...watched.kinds].map(([kind, its]) => ({
        kind,
        state: this.#stateOf(its),
        compared: its.observed,
        wrong: its.wrong,
        evidence: Number(evidenceOf(its).toPrecision(3)),
      })),
    }));
  }

  copy(): DriftCopy {
    return {
      version: this.#terms.version,
      agents: [...this.#agents].map(([agent, { kinds, ...watched }]) => [
        agent,
        structuredClone({ ...watched, kinds: [...kinds] }),
      ]),
    };
  }

  #stateOf(its: WatchedKind): KindState {
    if (its.suspended_at_ms !== null) return 'suspended';
    if (its.suspicion !== null) return 'suspect';
    return its.observed < DRIFT.trusted ? 'young' : 'trusted';
  }

  /** The fewer comparisons there are, the more of the steps are audited. */
  #shareOf(compared: number): number {
    const more = Math.max(1, (DRIFT.young_factor * DRIFT.young) / (DRIFT.young + compared));
    return Math.min(1, this.#share * more);
  }

  #watch(agent: string): WatchedAgent | null {
    let watched = this.#agents.get(agent);
    if (watched !== undefined) return watched;
    if (this.#agents.size >= DRIFT.agents) return null;
    watched = { ...startDrift(), suspended_at_ms: null, kinds: new Map() };
    this.#agents.set(agent, watched);
    return watched;
  }

  /** What are too many kinds to be watched each by itself are watched together. */
  #nameOf(watched: WatchedAgent | undefined, kind: string): string {
    if (watched === undefined || watched.kinds.has(kind) || watched.kinds.size < DRIFT.kinds - 1) return kind;
    return OTHER_KINDS;
  }

  #restore({ version, agents }: DriftCopy): void {
    const isSame = version === this.#terms.version;
    for (const [agent, { kinds, ...watched }] of agents.slice(0, DRIFT.agents)) {
      // A student that was made before the suspension knows no better than the one that was suspended.
      const stays = (at: number | null) => at !== null && (isSame || at >= this.#terms.made_at_ms);
      const ofAgent = stays(watched.suspended_at_ms) ? watched.suspended_at_ms : null;
      const wasAgent = watched.suspended_at_ms !== null && ofAgent === null;
      this.#agents.set(agent, {
        ...(isSame ? structuredClone(watched) : startDrift()),
        suspended_at_ms: ofAgent,
        kinds: new Map(
          kinds.slice(0, DRIFT.kinds).map(([kind, its]) => {
            if (isSame) return [kind, structuredClone(its)];
            const suspended_at_ms = stays(its.suspended_at_ms) ? its.suspended_at_ms : null;
            const isSuspect = wasAgent || its.suspicion !== null || its.suspended_at_ms !== null;
            return [kind, { ...startDrift(), suspended_at_ms, suspicion: isSuspect ? 0 : null }];
          }),
        ),
      });
    }
  }
}

const OTHER_KINDS = '(other)';
