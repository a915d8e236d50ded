/** A ticket opens the stream for a minute, only for the user that made it and only in this process. */
import { describe, expect, it } from 'vitest';
import { redeemTicket } from '../../src/api/ticketed-request.ts';
import { StreamTickets } from '../../src/auth/stream-tickets.ts';
import type { ApiRequest } from '../../src/contract/route.ts';
import { STREAM_TICKET } from '../../src/limits.ts';

const AUTHORIZATION = 'Bearer svc_live_a-secret-of-a-customer';

function requestWith(query: string, headers: Record<string, string> = {}): ApiRequest {
  const given = new Map(Object.entries(headers));
  return {
    method: 'GET',
    path: '/v1/monitor/stream',
    query,
    headers: given,
    params: {},
    body: new Uint8Array(),
    address: '192.0.2.1',
  };
}

describe('a ticket', () => {
  const clock = { now_ms: Date.UTC(2026, 0, 1), wallMs: () => clock.now_ms };
  const key = StreamTickets.allocate();
  const tickets = new StreamTickets(key, clock);

  it('represents its credential and tenant on every thread of the process until it expires', async () => {
    const ticket = await tickets.issue(AUTHORIZATION, { org_id: 'org_a' }, 'proj_a');
    expect(ticket).toMatch(/^[\w.-]+$/);
    expect(Buffer.from(ticket, 'base64').toString('latin1')).not.toContain('svc_live_');
    const query = `ticket=${ticket}&org_id=org_b&last_event_id=7`;
    const redeemed = await redeemTicket(requestWith(query, { host: 'h' }), new StreamTickets(key, clock))!;
    expect(Object.fromEntries(new URLSearchParams(redeemed.query))).toEqual({
      org_id: 'org_a',
      project_id: 'proj_a',
      last_event_id: '7',
    });
    expect(redeemed.headers.get('authorization')).toBe(AUTHORIZATION);
    expect(redeemed.headers.has('authorization')).toBe(true);
    expect(redeemed.headers.get('host')).toBe('h');
    expect(redeemed.address).toBe('192.0.2.1');
    clock.now_ms += STREAM_TICKET.seconds * 1_000;
    await expect(redeemTicket(requestWith(query), tickets)).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  });

  it('is refused in another process or if it is damaged, and ignored if the request has a credential', async () => {
    const ticket = await tickets.issue(AUTHORIZATION, { org_id: 'org_a' }, null);
    const query = `ticket=${ticket}`;
    const other = new StreamTickets(StreamTickets.allocate(), clock);
    await expect(redeemTicket(requestWith(query), other)).rejects.toMatchObject({ code: 'unauthenticated' });
    await expect(redeemTicket(requestWith(`ticket=${ticket}A`), tickets)).rejects.toMatchObject({
      code: 'unauthenticated',
    });
    expect(redeemTicket(requestWith(query, { authorization: 'Bearer x' }), tickets)).toBeNull();
    expect(redeemTicket(requestWith('project_id=p'), tickets)).toBeNull();
  });

  it('is refused to a credential that cannot stand in a query', async () => {
    const long = `Bearer ${'a'.repeat(STREAM_TICKET.characters)}`;
    await expect(tickets.issue(long, { org_id: 'org_a' }, null)).rejects.toMatchObject({
      code: 'body_too_large',
    });
  });
});
