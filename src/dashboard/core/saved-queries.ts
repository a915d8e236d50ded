/** Searches that the reader saved. The service keeps them for each user and organization. Browser. */
import { call } from './api.ts';
import { type Resource, useResource } from './resource.ts';
import { organization } from './session.ts';

interface SavedQuery {
  id: string;
  query: string;
}

interface SavedQueries {
  /** The oldest first; empty until they are read. */
  queries: readonly SavedQuery[];
  /** Saves a query. A query that is saved already is not saved twice. @throws ApiError (rejects) */
  save(query: string): Promise<void>;
  /** Deletes a saved query. @throws ApiError (rejects) */
  forget(saved: SavedQuery): Promise<void>;
}

const NO_QUERIES: readonly SavedQuery[] = [];

export function useSavedQueries(): SavedQueries {
  const org_id = organization.value!.id;
  const params = { org_id };
  const read: Resource<readonly SavedQuery[]> = useResource(`searches ${org_id}`, (signal) =>
    call('GET /organizations/{org_id}/searches', { params, signal }),
  );
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
