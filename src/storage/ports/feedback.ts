/** Feedback of users about the product. Types; any thread. */
import type { Feedback } from '../../domain/account.ts';
import type { Listing, Page } from './page.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface FeedbackReads {
  /** Lists all feedback, newest first. */
  list(page: Page): Listing<Feedback>;
}

/** What a transaction may do. */
export interface FeedbackWork extends FeedbackReads {
  add(fields: Pick<Feedback, 'user_id' | 'message' | 'page'>, nowMs: number): Feedback;
}
