/** What users say of the product. Functions of a transaction. Any thread. */
import type { Feedback } from '../../domain/account.ts';
import { newUlid } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { type Listing, type Page, readNewest } from './page.ts';

const FEEDBACK = 'feedback';

export function writeFeedback(
  tx: TableTransaction,
  fields: Pick<Feedback, 'user_id' | 'message' | 'page'>,
  nowMs: number,
): Feedback {
  const feedback = { id: `fb_${newUlid()}`, ...fields, created_at: new Date(nowMs).toISOString() };
  tx.write({ op: 'put', table: FEEDBACK, row: [feedback.id], value: feedback });
  return feedback;
}

/** Newest first. */
export function listFeedback(tables: TableReader, page: Page): Listing<Feedback> {
  return readNewest<Feedback>(tables, FEEDBACK, [], page);
}
