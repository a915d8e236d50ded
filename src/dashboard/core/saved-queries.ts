/**
 * Searches that the reader saved. The service keeps them for each user and organization. Those that an earlier version
 * saved in this browser are handed over once. Browser.
 */
import { ApiError, call } from './api.ts';
import { type Resource, useResource } from './resource.ts';
import { organization } from './session.ts';

/** The entry of earlier versions. */
const KEY = 'understudy.queries';

interface SavedQuery {
  id: string;
  query: string;
}

interface SavedQueries {
  /** The oldest first; empty until they are read. */
  queries: readonly SavedQuery[];
  /** @throws ApiError (rejects) */
  save(query: string): Promise<void>;
  /** @throws ApiError (rejects) */
  forget(saved: SavedQuery): Promise<void>;
}

const NO_QUERIES: readonly SavedQuery[] = [];

export function useSavedQueries(): SavedQueries {
  const org_id = organization.value!.id;
  const params = { org_id };
  const read: Resource<readonly SavedQuery[]> = useResource(`searches ${org_id}`, async (signal) => {
    await handOver(org_id, signal);
    return call('GET /organizations/{org_id}/searches', { params, signal });
  });
  const queries = read.data.value ?? NO_QUERIES;
  return {
    queries,
    save: async (query) => {
      const saved = await call('POST /organizations/{org_id}/searches', { params, body: { query } });
      read.set([...queries.filter(({ id }) => id !== saved.id), saved]);
    },
    forget: async ({ id }) => {
      await call('DELETE /organizations/{org_id}/searches/{search_id}', {
        params: { org_id, search_id: id },
      });
      read.set(queries.filter((other) => other.id !== id));
    },
  };
}

/** Refused queries stay behind: one with an error, or one too many. @throws ApiError (rejects) when it may be repeated */
async function handOver(org_id: string, signal: AbortSignal): Promise<void> {
  for (const query of listStored()) {
    try {
      await call('POST /organizations/{org_id}/searches', { params: { org_id }, body: { query }, signal });
    } catch (thrown) {
      if (!(thrown instanceof ApiError) || (thrown.status !== 409 && thrown.status !== 422)) throw thrown;
    }
  }
  try {
    localStorage.removeItem(KEY);
  } catch {
    // A browser that stores nothing has nothing to remove.
  }
}

function listStored(): string[] {
  try {
    const saved: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(saved) ? saved.filter((query): query is string => typeof query === 'string') : [];
  } catch {
    // The browser stores nothing, or the entry has another form.
    return [];
  }
}
