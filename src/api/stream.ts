/** Handler of `contract/stream.ts`. Front threads. */

import type { HandlersOf } from '../contract/handler.ts';
import type { STREAM } from '../contract/stream.ts';
import { CatalogueError } from '../errors.ts';
import { EVENT_STREAM_HEADERS } from '../http/event-stream.ts';
import type { LiveReaders } from './live-readers.ts';

/** @param readers null: the stream is off */
export function streamHandlers(readers: LiveReaders | null): HandlersOf<typeof STREAM> {
  return {
    liveStream({ tenant, query, request }) {
      if (readers === null)
        throw new CatalogueError('unavailable', 'The live stream is off: AUTH_DB_CONN_URL is unset');
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const lastId = request.headers.get('last-event-id') ?? query.last_event_id ?? '';
      return {
        headers: EVENT_STREAM_HEADERS,
        stream: readers.stream({ org_id, project_id }, readEventId(lastId)),
      };
    },
  };
}

/** Before every event: what cannot be an id of ours leads to a `reset`. */
const NO_SUCH_ID = -1;

/** @returns null for a reader that begins anew */
function readEventId(text: string): number | null {
  if (text === '') return null;
  const id = /^\d{1,16}$/.test(text) ? Number(text) : NO_SUCH_ID;
  return Number.isSafeInteger(id) ? id : NO_SUCH_ID;
}
