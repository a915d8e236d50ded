/**
 * A request whose query contains a ticket instead of a credential (src/auth/stream-tickets.ts). Server threads.
 */
import type { StreamTickets } from '../auth/stream-tickets.ts';
import type { ApiRequest } from '../contract/route.ts';

/**
 * Replaces the ticket of a request by the credential and the tenant that the ticket stands for.
 * @returns the changed request; null if the request has no ticket, or has a credential. Rejects with CatalogueError
 *   `unauthenticated` for an invalid or expired ticket
 */
export function redeemTicket(
  request: ApiRequest,
  tickets: Pick<StreamTickets, 'open'>,
): Promise<ApiRequest> | null {
  if (request.query === '' || request.headers.has('authorization')) return null;
  const query = new URLSearchParams(request.query);
  const ticket = query.get('ticket');
  if (ticket === null) return null;
  // Read all parts of the request before waiting, because they are lost when the client
  // disconnects.
  const { method, path, headers, params, body, address } = request;
  return tickets.open(ticket).then(({ authorization, org_id, project_id }) => {
    query.delete('ticket');
    query.set('org_id', org_id);
    if (project_id !== null) query.set('project_id', project_id);
    return {
      ...{ method, path, params, body, address },
      query: query.toString(),
      headers: {
        get: (name) => (name === 'authorization' ? authorization : headers.get(name)),
        has: (name) => name === 'authorization' || headers.has(name),
      },
    };
  });
}
