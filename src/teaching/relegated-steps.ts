/**
 * Lists steps with a relegation decision, newest first: the decision, and both answers if both are known. It examines
 * the newest CAPTURE_ACTIVITY.exchanges exchanges once, in blocks of consecutive ids. Later pages pass over a block
 * without a decision as a whole. Pure except for its source; capture reader.
 *
 * Memory: about 50 bytes per examined exchange, and less in blocks without a decision.
 */

import type { ExchangeSource } from '../captures/exchange-source.ts';
import { type ToldDecision, tellDecision } from '../captures/told-decision.ts';
import type { RelegatedStepFilter } from '../domain/captured-run.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { CAPTURE_ACTIVITY } from '../limits.ts';
import type { AnswerComparison } from './answer-comparison.ts';
import { explainStep } from './step-explanation.ts';

export interface RelegatedStep {
  exchange_id: number;
  run_id: string | null;
  started_at: string;
  model: string | null;
  served_by: ExchangeRecord['served_by'];
  relegation: ToldDecision;
  /** null when one of the two answers is unknown. */
  comparison: AnswerComparison | null;
}

interface RelegatedStepPage {
  steps: RelegatedStep[];
  /** Where the next page begins; null when there are no more. */
  next: number | null;
}

/** What is cached of an exchange; null without a decision of relegation. */
type Outcome = 'served' | 'refused' | 'agreed' | 'disagreed' | null;

/** Number of consecutive ids in one block. */
const BLOCK_IDS = 256;

/** Maximum number of equal values that are shown, because they matter little. */
const SHOWN_VALUES = 20;

export class RelegatedSteps {
  readonly #max: number;
  readonly #blocks = new Map<number, Block>();

  /** @param max exchanges that are examined, from the newest on */
  constructor(max: number = CAPTURE_ACTIVITY.exchanges) {
    this.#max = max;
  }

  /**
   * Reads a page. If the time runs out, the page is short and says where it ended. Each call advances by at least one
   * exchange. A page without any entry gets more time.
   * @param lastId id of the newest exchange
   * @param before only steps of earlier exchanges; null to begin with the newest
   */
  page(
    source: ExchangeSource,
    lastId: number,
    { limit, before, filter }: { limit: number; before: number | null; filter: RelegatedStepFilter },
    hasTime: (found: number) => boolean,
  ): RelegatedStepPage {
    const floor = Math.max(1, lastId - this.#max + 1);
    const steps: RelegatedStep[] = [];
    let id = Math.min(lastId, before === null ? lastId : before - 1);
    for (; id >= floor; id--) {
      if (steps.length === limit) return { steps, next: id + 1 };
      const block = this.#blocks.get(blockOf(id));
      if (block?.is_empty) {
        id = firstOf(blockOf(id));
        continue;
      }
      const seen = block?.outcomes.get(id);
      if (seen !== undefined && !isWanted(seen, filter)) continue;
      const [step, outcome] = this.#look(source, id);
      if (step !== null && isWanted(outcome, filter)) steps.push(step);
      if (!hasTime(steps.length) && id > floor) return { steps, next: id };
    }
    return { steps, next: null };
  }

  /**
   * Examines exchanges, from the newest on, that no page has needed yet.
   * @returns whether there are more
   */
  readAhead(source: ExchangeSource, lastId: number, hasTime: () => boolean): boolean {
    const floor = Math.max(1, lastId - this.#max + 1);
    for (let id = lastId; id >= floor; id--) {
      const block = this.#blocks.get(blockOf(id));
      if (block?.is_empty || (block !== undefined && block.outcomes.size === BLOCK_IDS))
        id = firstOf(blockOf(id));
      else if (block?.outcomes.get(id) === undefined) {
        if (!hasTime()) return true;
        this.#look(source, id);
      }
    }
    return false;
  }

  #look(source: ExchangeSource, id: number): [RelegatedStep | null, Outcome] {
    const record = source.exchange(id);
    const relegation = record === undefined ? null : tellDecision(record);
    if (record === undefined || relegation === null) {
      this.#remember(id, null);
      return [null, null];
    }
    const hasBoth = record.relegation!.answer !== null && record.served_by === 'upstream';
    const comparison = hasBoth ? (explainStep(source, id, null)?.comparison ?? null) : null;
    const { run_id, started_at, model, served_by } = record;
    const outcome = outcomeOf(served_by, comparison);
    this.#remember(id, outcome);
    const step = {
      exchange_id: id,
      run_id,
      started_at,
      model,
      served_by,
      relegation,
      comparison:
        comparison === null ? null : { ...comparison, values: comparison.values.slice(0, SHOWN_VALUES) },
    };
    return [step, outcome];
  }

  #remember(id: number, outcome: Outcome): void {
    const at = blockOf(id);
    const block = this.#blocks.get(at) ?? { outcomes: new Map(), decided: 0, is_empty: false };
    this.#blocks.set(at, block);
    if (!block.outcomes.has(id) && outcome !== null) block.decided += 1;
    block.outcomes.set(id, outcome);
    if (block.outcomes.size === BLOCK_IDS && block.decided === 0) {
      block.is_empty = true;
      block.outcomes.clear();
    }
    // All blocks are evicted together. Their order says only when they were examined, not how old their steps are.
    if (this.#blocks.size > (2 * this.#max) / BLOCK_IDS + 2) this.#blocks.clear();
  }
}

/** The examined exchanges among BLOCK_IDS consecutive ids. */
interface Block {
  outcomes: Map<number, Outcome>;
  /** How many of them have a decision. */
  decided: number;
  /** All were examined, and none has a decision. */
  is_empty: boolean;
}

function blockOf(id: number): number {
  return Math.floor((id - 1) / BLOCK_IDS);
}

function firstOf(block: number): number {
  return block * BLOCK_IDS + 1;
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
