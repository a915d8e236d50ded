/**
 * What users write about the product. Functions that run in a transaction. Any thread.
 */
import type { Feedback } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, type Listing, type Page, readNewest } from './page.ts';

/** [feedback] → Feedback, counted. */
export const FEEDBACK = 'feedback';

export function writeFeedback(
  tx: TableTransaction,
  fields: Pick<Feedback, 'user_id' | 'message' | 'page'>,
  nowMs: number,
): Feedback {
  const feedback = { id: `fb_${ulidAt(nowMs)}`, ...fields, created_at: new Date(nowMs).toISOString() };
  tx.write({ op: 'put', table: FEEDBACK, row: [feedback.id], value: feedback });
  countRow(tx, FEEDBACK, [], 1);
  return feedback;
}

/** Updates the count after a row was removed. */
export function forgetFeedback(tx: TableTransaction): void {
  countRow(tx, FEEDBACK, [], -1);
}

/** Newest first. */
export function listFeedback(tables: TableReader, page: Page): Listing<Feedback> {
  return readNewest<Feedback>(tables, FEEDBACK, [], page);
}
