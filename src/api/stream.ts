/** Handlers of `contract/stream.ts`. Server threads. */

import { authorizationOf } from '../auth/page-session.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { STREAM } from '../contract/stream.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { EVENT_STREAM_HEADERS } from '../http/event-stream.ts';
import { STREAM_TICKET } from '../limits.ts';
import type { LiveReaders, MayStay } from './live-readers.ts';
import type { Checks } from './pipeline.ts';

interface StreamServices {
  /** null or absent: the stream is off. */
  live?: LiveReaders | null;
  checks: Pick<Checks, 'authenticator' | 'memberships' | 'tickets'>;
}

export function streamHandlers({ live: readers = null, checks }: StreamServices): HandlersOf<typeof STREAM> {
  const { tickets } = checks;
  return {
    async streamTicket({ tenant, body, request }) {
      if (readers === null || tickets === undefined) throw isOff();
      const project_id = tenant.project_id ?? body.project_id ?? null;
      const authorization = authorizationOf(request) ?? '';
      const ticket = await tickets.issue(authorization, tenant, project_id);
      return {
        body: { ticket, expires_in_s: STREAM_TICKET.seconds },
        headers: [['cache-control', 'no-store']],
      };
    },

    liveStream({ tenant, query, request }) {
      if (readers === null) throw isOff();
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const lastId = request.headers.get('last-event-id') ?? query.last_event_id ?? '';
      return {
        headers: EVENT_STREAM_HEADERS,
        stream: readers.stream(
          { org_id, project_id },
          readEventId(lastId),
          watchCredential(tenant, authorizationOf(request), checks),
        ),
      };
    },
  };
}

function isOff(): CatalogueError {
  return new CatalogueError('unavailable', 'The live stream is off: AUTH_DB_CONN_URL is unset');
}

/**
 * Replaces an id that this service cannot have sent. It is lower than all event ids, so its reader
 * gets a `reset`.
 */
const NO_SUCH_ID = -1;

/**
 * Reads the last event id of a reader; null: the reader has none; NO_SUCH_ID: the text is no event id.
 */
function readEventId(text: string): number | null {
  if (text === '') return null;
  const id = /^\d{1,16}$/.test(text) ? Number(text) : NO_SUCH_ID;
  return Number.isSafeInteger(id) ? id : NO_SUCH_ID;
}

/**
 * Returns a function that checks the stream's credential again: the key may have been revoked, the
 * token may have expired, or the user may have left.
 * @returns null for the operator's own keys, which are valid as long as the process runs
 */
function watchCredential(
  tenant: Tenant,
  authorization: string | undefined,
  { authenticator, memberships }: StreamServices['checks'],
): MayStay | null {
  if (tenant.actor.type === 'static') return null;
  return async () => {
    try {
      const principal = await authenticator.authenticate(authorization);
      if (principal.type === 'user')
        return (await memberships.roleOf(principal.identity, tenant.org_id)) !== null;
      if (principal.type === 'static') return true;
      return principal.org_id === tenant.org_id && principal.project_id === tenant.project_id;
    } catch (thrown) {
      // If the check is not possible now, the stream continues until the next check.
      return toCatalogueError(thrown).code !== 'unauthenticated';
    }
  };
}
