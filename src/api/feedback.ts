/** Handlers of `contract/feedback.ts`. Server threads. */
import type { FEEDBACK } from '../contract/feedback.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import { maskSecrets } from '../domain/patterns/text.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { auditActor, ownOrganization, requireUser } from './access.ts';

export function feedbackHandlers({ accounts }: { accounts: Accounts }): UserHandlersOf<typeof FEEDBACK> {
  return {
    sendFeedback: async ({ user, body, request, now_ms }) => {
      const fields = {
        user_id: user.id,
        message: maskSecrets(body.message),
        page: body.page == null ? null : maskSecrets(body.page),
      };
      const { id, created_at } = await accounts.transact((tx) => {
        requireUser(tx, user);
        const feedback = tx.feedback.add(fields, now_ms);
        const org_id = ownOrganization(tx, user.id);
        if (org_id !== null)
          tx.audit.add(auditActor(user, request.address), now_ms, {
            org_id,
            action: 'feedback.send',
            target: feedback.id,
          });
        return feedback;
      });
      return { body: { id, created_at } };
    },
  };
}
