/**
 * Decides which covered steps are audited, and acts on the results. In an audit the upstream answers the step
 * instead of the student, and the two answers are compared. For each agent and kind of answer, a sequential test
 * (src/student/model/drift-test.ts) detects when the student's error rate exceeds the promised one. Then that kind, or
 * the agent, is suspended. Pure except for the random draw and the clock that it is given. The student's thread, which
 * sees the steps of all server threads.
 *
 * A kind is `young` until enough of its answers were compared, then `trusted`. After one disagreement the kind is
 * `suspect`: every step is audited, so that no wrong answer is served until the kind is cleared or suspended. A
 * suspension ends by an operator's order, or when a student arrives that was made after the suspension. The kind is
 * `suspect` then.
 */

import { kindOfForm } from './answer-form.ts';
import {
  CLEARED,
  type DriftState,
  doubt,
  evidenceOf,
  observe,
  startDrift,
  startSuspicion,
} from './drift-test.ts';

/**
 * Bounds and error rates of the watch. It watches the first `agents` agents that are audited. Of each agent, it watches
 * the first `kinds` − 1 kinds and forms of answers one by one, and all further ones together. An agent that keeps the
 * promised error rate is ever suspended with a probability of at most the sum of the two α. At first, `young_factor`
 * times as many steps of a kind are audited. The factor falls to 1 by the time that `trusted` answers were compared.
 */
export const DRIFT = {
  agents: 200,
  kinds: 60,
  alpha_agent: 0.002,
  alpha_kinds: 0.008,
  young: 10,
  young_factor: 8,
  trusted: 70,
} as const;

/** What a student promises, from its manifest. */
export interface StudentTerms {
  version: number;
  made_at_ms: number;
  /** Largest error rate among served steps. */
  promise: number;
  /** When the student expires, in milliseconds since the epoch; null: never. */
  valid_until_ms: number | null;
}

type KindState = 'young' | 'trusted' | 'suspect' | 'suspended';

/** The state of one kind of answer of one agent. */
interface WatchedKind extends DriftState {
  /** Log likelihood ratio while the kind is suspect, otherwise null. */
  suspicion: number | null;
  suspended_at_ms: number | null;
}

interface WatchedAgent extends DriftState {
  suspended_at_ms: number | null;
  /** Kinds and forms of answers, in the order of their first appearance, which determines their shares of α. */
  kinds: Map<string, WatchedKind>;
}

/** The watch's state as a file stores it. */
export interface DriftCopy {
  version: number;
  agents: [string, Omit<WatchedAgent, 'kinds'> & { kinds: [string, WatchedKind][] }][];
}

/** A suspension after an audit: of one kind or form, or of the whole agent (`kind` is null). */
export type Suspension = { agent: string; kind: string | null; compared: number; wrong: number };

/** An agent as the stats show it. */
export interface WatchedAgentReport {
  agent: string;
  state: 'serving' | 'suspended';
  /** Who suspended it; null when it is not suspended. */
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
   * @param share of a trusted kind's covered steps that is audited; at 0 nothing is audited and no drift is noticed
   * @param kept state of the previous student, or of this one before a restart
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

  /**
   * Decides whether a covered step is served, audited, or left to the upstream.
   * @param kind the answer's kind or form
   */
  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended' {
    const watched = this.#agents.get(agent);
    if (watched !== undefined && watched.suspended_at_ms !== null) return 'suspended';
    const watchedKind = watched?.kinds.get(this.#nameOf(watched, kind)) ?? findFormer(watched, kind);
    if (watchedKind !== undefined && watchedKind.suspended_at_ms !== null) return 'suspended';
    if (this.#share === 0) return 'serve';
    if (watchedKind !== undefined && watchedKind.suspicion !== null) return 'audit';
    return this.#random() < this.#shareOf(watchedKind?.observed ?? 0) ? 'audit' : 'serve';
  }

  /**
   * Records the result of an audited step. An agent beyond DRIFT.agents is not watched.
   * @returns the suspension that follows; null: none
   */
  note(agent: string, kind: string, agreed: boolean): Suspension | null {
    const watched = this.#watch(agent);
    if (watched === null) return null;
    const name = this.#nameOf(watched, kind);
    let watchedKind = watched.kinds.get(name);
    if (watchedKind === undefined) {
      const isDoubted = findFormer(watched, name) !== undefined;
      watchedKind = { ...startDrift(), suspicion: isDoubted ? 0 : null, suspended_at_ms: null };
      watched.kinds.set(name, watchedKind);
    }
    const { promise } = this.#terms;
    if (watchedKind.suspicion !== null) {
      const left = doubt(watchedKind.suspicion, !agreed, promise);
      watchedKind.suspicion = left <= -CLEARED ? null : left;
    } else if (!agreed) watchedKind.suspicion = startSuspicion(promise);
    const ofKind = observe(watchedKind, !agreed, promise);
    const ofAgent = observe(watched, !agreed, promise);
    const place = [...watched.kinds.keys()].indexOf(name) + 1;
    if (ofAgent >= 1 / DRIFT.alpha_agent && watched.suspended_at_ms === null) {
      watched.suspended_at_ms = this.#now();
      return { agent, kind: null, compared: watched.observed, wrong: watched.wrong };
    }
    // 1/2 + 1/6 + 1/12 + … is 1, so every kind up to the bound has its share.
    if (ofKind >= (place * (place + 1)) / DRIFT.alpha_kinds && watchedKind.suspended_at_ms === null) {
      watchedKind.suspended_at_ms = this.#now();
      return { agent, kind: name, compared: watchedKind.observed, wrong: watchedKind.wrong };
    }
    return null;
  }

  /**
   * Lifts a suspension by an operator's order. Later steps are audited until the kind is cleared.
   * @param kind null for the agent as a whole and all its kinds
   * @param beforeMs only suspensions up to this time are lifted, in milliseconds since the epoch
   * @returns whether a suspension was lifted
   */
  resume(agent: string, kind: string | null, beforeMs: number): boolean {
    const watched = this.#agents.get(agent);
    if (watched === undefined) return false;
    let isChanged = false;
    if (kind === null && watched.suspended_at_ms !== null && watched.suspended_at_ms <= beforeMs) {
      Object.assign(watched, startDrift(), { suspended_at_ms: null });
      for (const watchedKind of watched.kinds.values()) watchedKind.suspicion ??= 0;
      isChanged = true;
    }
    for (const [name, watchedKind] of watched.kinds) {
      if (kind !== null && kind !== name && kind !== kindOfForm(name)) continue;
      if (watchedKind.suspended_at_ms === null) continue;
      if (watchedKind.suspended_at_ms > beforeMs) continue;
      Object.assign(watchedKind, startDrift(), { suspended_at_ms: null, suspicion: 0 });
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
      kinds: [...watched.kinds].map(([kind, watchedKind]) => ({
        kind,
        state: this.#stateOf(watchedKind),
        compared: watchedKind.observed,
        wrong: watchedKind.wrong,
        evidence: Number(evidenceOf(watchedKind).toPrecision(3)),
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

  #stateOf(watchedKind: WatchedKind): KindState {
    if (watchedKind.suspended_at_ms !== null) return 'suspended';
    if (watchedKind.suspicion !== null) return 'suspect';
    return watchedKind.observed < DRIFT.trusted ? 'young' : 'trusted';
  }

  /** Computes the share of steps that is audited: the fewer comparisons exist, the larger. */
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

  /** The name under which the kind is watched. All kinds beyond the bound share OTHER_KINDS. */
  #nameOf(watched: WatchedAgent | undefined, kind: string): string {
    if (watched === undefined || watched.kinds.has(kind) || watched.kinds.size < DRIFT.kinds - 1) return kind;
    return OTHER_KINDS;
  }

  #restore({ version, agents }: DriftCopy): void {
    const isSame = version === this.#terms.version;
    for (const [agent, { kinds, ...watched }] of agents.slice(0, DRIFT.agents)) {
      // A student made before the suspension has not learned from it.
      const stays = (at: number | null) => at !== null && (isSame || at >= this.#terms.made_at_ms);
      const ofAgent = stays(watched.suspended_at_ms) ? watched.suspended_at_ms : null;
      const wasAgent = watched.suspended_at_ms !== null && ofAgent === null;
      this.#agents.set(agent, {
        ...(isSame ? structuredClone(watched) : startDrift()),
        suspended_at_ms: ofAgent,
        kinds: new Map(
          kinds.slice(0, DRIFT.kinds).map(([kind, copied]) => {
            if (isSame) return [kind, structuredClone(copied)];
            const suspended_at_ms = stays(copied.suspended_at_ms) ? copied.suspended_at_ms : null;
            const isSuspect = wasAgent || copied.suspicion !== null || copied.suspended_at_ms !== null;
            return [kind, { ...startDrift(), suspended_at_ms, suspicion: isSuspect ? 0 : null }];
          }),
        ),
      });
    }
  }
}

const OTHER_KINDS = '(other)';

/**
 * Finds a form of the same kind that an earlier version left suspended or suspect, and that was not compared since.
 * Suspended forms come before suspect ones.
 */
function findFormer(watched: WatchedAgent | undefined, name: string): WatchedKind | undefined {
  const kind = kindOfForm(name);
  const former = [...(watched?.kinds ?? [])].flatMap(([other, of]) =>
    kindOfForm(other) === kind && of.observed === 0 && (of.suspicion !== null || of.suspended_at_ms !== null)
      ? [of]
      : [],
  );
  return former.find(({ suspended_at_ms }) => suspended_at_ms !== null) ?? former[0];
}
