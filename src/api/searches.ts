/** Handlers of `contract/searches.ts`. Server threads. */
import type { SEARCHES } from '../contract/searches.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import { valueViolation } from '../contract/violation.ts';
import { maskSecrets } from '../domain/patterns/text.ts';
import { parseRunQuery } from '../domain/run-query/parse.ts';
import { RunQueryError } from '../domain/run-query/run-query.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { requireRole } from './access.ts';

export function searchHandlers({ accounts }: { accounts: Accounts }): UserHandlersOf<typeof SEARCHES> {
  return {
    listSearches: ({ user, params: { org_id } }) => {
      requireRole(accounts, user, org_id, 'searches.keep');
      return { body: accounts.searches.list({ org_id, user_id: user.id }) };
    },

    saveSearch: async ({ user, params: { org_id }, body, now_ms }) => ({
      body: await accounts.transact((tx) => {
        requireRole(tx, user, org_id, 'searches.keep');
        return tx.searches.save({ org_id, user_id: user.id }, readQuery(body.query), now_ms);
      }),
    }),

    forgetSearch: async ({ user, params: { org_id, search_id } }) => {
      const removed = await accounts.transact((tx) => {
        requireRole(tx, user, org_id, 'searches.keep');
        return tx.searches.remove({ org_id, user_id: user.id }, search_id);
      });
      return { body: { removed } };
    },
  };
}

/** Checks a query before it is saved. @throws SchemaViolation for a text that is no query, or contains a secret */
function readQuery(given: string): string {
  const query = given.trim();
  if (query === '') throw valueViolation(['body', 'query'], 'the query is empty', given);
  if (maskSecrets(query) !== query)
    throw valueViolation(['body', 'query'], 'the query contains what looks like a key or a password', null);
  try {
    parseRunQuery(query);
  } catch (thrown) {
    if (thrown instanceof RunQueryError) throw valueViolation(['body', 'query'], thrown.message, given);
    throw thrown;
  }
  return query;
}
