/**
 * The steps about which relegation decided, newest first: what was decided, and both answers where both are known. It looks at
 * the newest CAPTURE_ACTIVITY.exchanges exchanges and remembers what it saw. Pure but for the source it reads from; capture
 * reader.
 *
 * Memory: some 50 bytes for each exchange that was looked at.
 */
import type { RelegatedStepFilter } from '../domain/captured-run.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { describeDecision } from '../domain/relegation-words.ts';
import { CAPTURE_ACTIVITY } from '../limits.ts';
import type { AnswerComparison } from './answer-comparison.ts';
import type { HasTime } from './captured-runs.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { explainStep } from './step-explanation.ts';

/** What relegation decided, for who reads of it: without the answer. */
export interface ToldDecision {
  decision: string;
  /** The decision as words. */
  words: string;
  student_version: number | null;
  agent: string | null;
  kind: string | null;
  score: number | null;
}

export interface RelegatedStep {
  exchange_id: number;
  run_id: string | null;
  started_at: string;
  model: string | null;
  served_by: ExchangeRecord['served_by'];
  relegation: ToldDecision;
  /** null: one of the two answers is not known. */
  comparison: AnswerComparison | null;
}

export interface RelegatedStepPage {
  steps: RelegatedStep[];
  /** Where the next page begins; null: there are no more. */
  next: number | null;
}

/** What is remembered of an exchange; null: relegation had no say. */
type Outcome = 'served' | 'refused' | 'agreed' | 'disagreed' | null;

/** Values that both answers have alike tell little. */
const SHOWN_VALUES = 20;

export function tellDecision({ relegation }: Pick<ExchangeRecord, 'relegation'>): ToldDecision | null {
  if (relegation === undefined) return null;
  const { decision, student_version, agent, kind, score } = relegation;
  const words = describeDecision(decision) ?? decision.replaceAll('_', ' ');
  return { decision, words, student_version, agent, kind, score };
}

export class RelegatedSteps {
  readonly #max: number;
  readonly #seen = new Map<number, Outcome>();

  /** @param max exchanges that are looked at, from the newest on */
  constructor(max: number = CAPTURE_ACTIVITY.exchanges) {
    this.#max = max;
  }

  /**
   * A page. It is short where there is no time to look at more, and has its end all the same; it always gets further by one
   * exchange.
   * @param lastId of the newest exchange
   * @param before steps of earlier exchanges than this; null: from the newest on
   */
  page(
    source: ExchangeSource,
    lastId: number,
    { limit, before, filter }: { limit: number; before: number | null; filter: RelegatedStepFilter },
    hasTime: HasTime,
  ): RelegatedStepPage {
    const floor = Math.max(1, lastId - this.#max + 1);
    const steps: RelegatedStep[] = [];
    let id = Math.min(lastId, before === null ? lastId : before - 1);
    for (; id >= floor; id--) {
      if (steps.length === limit) return { steps, next: id + 1 };
      const seen = this.#seen.get(id);
      if (seen !== undefined && !isWanted(seen, filter)) continue;
      const step = this.#look(source, id);
      if (step !== null && isWanted(this.#seen.get(id)!, filter)) steps.push(step);
      if (!hasTime() && id > floor) return { steps, next: id };
    }
    return { steps, next: null };
  }

  #look(source: ExchangeSource, id: number): RelegatedStep | null {
    const record = source.exchange(id);
    const relegation = record === undefined ? null : tellDecision(record);
    if (record === undefined || relegation === null) {
      this.#remember(id, null);
      return null;
    }
    const hasBoth = record.relegation!.answer !== null && record.served_by === 'upstream';
    const comparison = hasBoth ? (explainStep(source, id, null)?.comparison ?? null) : null;
    const { run_id, started_at, model, served_by } = record;
    this.#remember(id, outcomeOf(served_by, comparison));
    return {
      exchange_id: id,
      run_id,
      started_at,
      model,
      served_by,
      relegation,
      comparison:
        comparison === null ? null : { ...comparison, values: comparison.values.slice(0, SHOWN_VALUES) },
    };
  }

  #remember(id: number, outcome: Outcome): void {
    this.#seen.set(id, outcome);
    // The first that were looked at are the newest of their time; which of them go does not matter.
    if (this.#seen.size > 2 * this.#max) this.#seen.clear();
  }
}

function outcomeOf(served_by: ExchangeRecord['served_by'], comparison: AnswerComparison | null): Outcome {
  if (served_by === 'student') return 'served';
  if (comparison === null) return 'refused';
  return comparison.agree ? 'agreed' : 'disagreed';
}

function isWanted(seen: Outcome, { outcome }: RelegatedStepFilter): boolean {
  if (seen === null) return false;
  if (outcome === undefined) return true;
  return outcome === 'compared' ? seen === 'agreed' || seen === 'disagreed' : seen === outcome;
}
