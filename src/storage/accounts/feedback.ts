/** Feedback of users about the product. Any thread. */
import type { Feedback } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { FeedbackReads, FeedbackWork } from '../ports/feedback.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, readNewest } from './page.ts';

/** [feedback] → Feedback, counted. */
export const FEEDBACK = 'feedback';

export class TableFeedbackReads implements FeedbackReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  list(page: Page): Listing<Feedback> {
    return readNewest<Feedback>(this.#reader, FEEDBACK, [], page);
  }
}

export class TableFeedbackWork extends TableFeedbackReads implements FeedbackWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  add(fields: Pick<Feedback, 'user_id' | 'message' | 'page'>, nowMs: number): Feedback {
    const feedback = { id: `fb_${ulidAt(nowMs)}`, ...fields, created_at: new Date(nowMs).toISOString() };
    this.#tx.write({ op: 'put', table: FEEDBACK, row: [feedback.id], value: feedback });
    countRow(this.#tx, FEEDBACK, [], 1);
    return feedback;
  }

  /** Updates the count after a row was removed. */
  forget(): void {
    countRow(this.#tx, FEEDBACK, [], -1);
  }
}
