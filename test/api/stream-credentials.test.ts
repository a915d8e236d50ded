/** A stream outlives the request that opened it, but ends when the credential of that request is no longer valid. */

import { describe, expect, it } from 'vitest';
import type { LiveReaders, LiveScope, MayStay } from '../../src/api/live-readers.ts';
import { streamHandlers } from '../../src/api/stream.ts';
import { Authenticator } from '../../src/auth/authenticator.ts';
import type { Principal } from '../../src/auth/principal.ts';
import type { Tenant } from '../../src/domain/tenant.ts';
import { CatalogueError } from '../../src/errors.ts';

const KEY: Principal = { type: 'key', id: 'key_1', org_id: 'org_a', project_id: 'proj_a' };
const USER: Principal = {
  type: 'user',
  id: 'user:1',
  identity: { issuer: '', subject: 's', email: null, name: null, email_verified: true, issued_at_s: null },
};

/** Opens a stream like a request of the tenant. */
async function open(tenant: Tenant, query: object = {}) {
  const world: { principal: Principal | CatalogueError; isMember: boolean } = {
    principal: KEY,
    isMember: true,
  };
  const opened: { scope: LiveScope; afterId: number | null; mayStay: MayStay | null }[] = [];
  const live = {
    stream: (scope: LiveScope, afterId: number | null, mayStay: MayStay | null) => {
      opened.push({ scope, afterId, mayStay });
      return { open: () => () => {} };
    },
  } as unknown as LiveReaders;
  const verify = () => {
    if (world.principal instanceof CatalogueError) throw world.principal;
    return world.principal;
  };
  const { liveStream } = streamHandlers({
    live,
    checks: {
      authenticator: new Authenticator([{ verify }]),
      memberships: { roleOf: () => (world.isMember ? { user_id: 'usr_1', role: 'viewer' } : null) },
    },
  });
  await liveStream({
    tenant,
    params: {},
    query,
    body: {},
    request: { headers: new Map([['authorization', 'Bearer abc']]) },
  } as unknown as Parameters<typeof liveStream>[0]);
  return { world, ...opened[0]! };
}

const tenantOf = (type: 'key' | 'user' | 'static', project_id: string | null = null) => ({
  org_id: 'org_a',
  project_id,
  actor: { type, id: 'x' } as Tenant['actor'],
});

describe('a stream', () => {
  it('ends when its key is revoked or gets another scope', async () => {
    const { world, mayStay, scope } = await open(tenantOf('key', 'proj_a'), { project_id: 'proj_b' });
    expect(scope, 'a project key cannot look into another project').toEqual({
      org_id: 'org_a',
      project_id: 'proj_a',
    });
    expect(await mayStay!()).toBe(true);
    world.principal = new CatalogueError('unavailable');
    expect(await mayStay!(), 'what cannot be found out now').toBe(true);
    world.principal = { ...KEY, org_id: 'org_b' };
    expect(await mayStay!()).toBe(false);
    world.principal = { ...KEY, project_id: null };
    expect(await mayStay!()).toBe(false);
    world.principal = new CatalogueError('unauthenticated');
    expect(await mayStay!()).toBe(false);
  });

  it('ends with its token and with the membership', async () => {
    const { world, mayStay, scope } = await open(tenantOf('user'), { project_id: 'proj_b' });
    expect(scope).toEqual({ org_id: 'org_a', project_id: 'proj_b' });
    world.principal = USER;
    expect(await mayStay!()).toBe(true);
    world.isMember = false;
    expect(await mayStay!()).toBe(false);
    world.isMember = true;
    world.principal = new CatalogueError('unauthenticated');
    expect(await mayStay!()).toBe(false);
  });

  it("that the operator's key opened is never checked again", async () => {
    expect((await open(tenantOf('static'))).mayStay).toBeNull();
  });
});
