/** Handlers of `contract/feedback.ts`. Front threads. */
import type { FEEDBACK } from '../contract/feedback.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import { writeFeedback } from '../storage/accounts/feedback.ts';
import type { Tables } from '../storage/tables.ts';

export function feedbackHandlers({ main }: { main: Tables }): UserHandlersOf<typeof FEEDBACK> {
  return {
    sendFeedback: async ({ user, body, now_ms }) => {
      const fields = { user_id: user.id, message: body.message, page: body.page ?? null };
      const { id, created_at } = await main.transact((tx) => writeFeedback(tx, fields, now_ms));
      return { body: { id, created_at } };
    },
  };
}
