/** Searches that users saved (docs/queries.md). Data; any thread. */
import { z } from 'zod';
import { RUN_QUERY_BOUNDS } from '../domain/run-query/run-query.ts';
import { endpoint, refusal } from './endpoint.ts';
import { identifier, text } from './fields.ts';

const savedSearch = z
  .object({
    id: z.string().describe('Id of the saved search'),
    query: z.string().describe('The query, in the language of docs/queries.md'),
    saved_at: z.string().describe('When the search was saved'),
  })
  .meta({ id: 'SavedSearch' });

const newSearch = z
  .object({
    query: text({ min: 1, max: RUN_QUERY_BOUNDS.characters }).describe(
      'A query in the language of docs/queries.md',
    ),
  })
  .meta({ id: 'NewSavedSearch' });

const forgotten = z
  .object({ removed: z.boolean().describe('false: the user had no such search') })
  .meta({ id: 'SearchForgotten' });

const orgParams = z.object({ org_id: identifier() });

export const SEARCHES = {
  listSearches: endpoint({
    id: 'list_saved_searches',
    method: 'GET',
    path: '/organizations/{org_id}/searches',
    auth: 'user',
    permission: 'searches.keep',
    summary: 'Searches that the user has saved in an organization, oldest first',
    tag: 'searches',
    params: orgParams,
    replies: { 200: { description: 'The saved searches', schema: z.array(savedSearch) } },
  }),
  saveSearch: endpoint({
    id: 'save_search',
    method: 'POST',
    path: '/organizations/{org_id}/searches',
    auth: 'user',
    permission: 'searches.keep',
    summary: 'Save a search; the same query is saved once',
    tag: 'searches',
    params: orgParams,
    body: newSearch,
    replies: {
      200: { description: 'The saved search', schema: savedSearch },
      409: refusal('The maximum number of saved searches is reached'),
    },
  }),
  forgetSearch: endpoint({
    id: 'forget_search',
    method: 'DELETE',
    path: '/organizations/{org_id}/searches/{search_id}',
    auth: 'user',
    permission: 'searches.keep',
    summary: 'Forget a saved search',
    tag: 'searches',
    params: orgParams.extend({ search_id: identifier().describe('Id of the saved search') }),
    replies: { 200: { description: 'The user has no such search now', schema: forgotten } },
  }),
} as const;
