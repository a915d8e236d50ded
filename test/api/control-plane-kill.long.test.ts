/** Projects, keys and revocations that the control plane acknowledged exist after a kill in the middle of writing. */
import { afterAll, expect, it } from 'vitest';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';

const api = new ControlPlaneChild();
afterAll(() => api[Symbol.asyncDispose]());

it('every acknowledged project, key and revocation survives three kills', async () => {
  await api.start();
  const owner = await api.person('owner');
  const projects = new Map<string, string>();
  const keys = new Set<string>();
  const revoked = new Set<string>();
  let number = 0;
  /** Reads all pages of a list, and checks that the number of rows equals the total in the header. */
  const readAll = async <Row>(path: string): Promise<Row[]> => {
    const rows: Row[] = [];
    for (;;) {
      const page = await api.call(owner.token, 'GET', `${path}&limit=200&offset=${rows.length}`);
      rows.push(...page.body);
      if (page.body.length < 200) {
        expect(page.headers.get('x-total-count')).toBe(String(rows.length));
        return rows;
      }
    }
  };
  for (let round = 0; round < 3; round++) {
    let isDead = false;
    const enough = projects.size + 40;
    const write = async () => {
      while (!isDead) {
        const name = `project ${++number}`;
        try {
          const made = await api.call(owner.token, 'POST', `/projects/?org_id=${owner.org_id}`, { name });
          if (made.status === 200) projects.set(made.body.id, name);
          const key = await api.call(owner.token, 'POST', '/api-keys/', {
            name: 'k',
            project_id: made.body.id,
          });
          if (key.status === 200) keys.add(key.body.id);
          if (number % 2 === 0) {
            const ended = await api.call(owner.token, 'DELETE', `/api-keys/${key.body.id}`);
            if (ended.status === 200) revoked.add(key.body.id);
          }
          if (projects.size >= enough && !isDead) {
            isDead = true;
            await api.kill();
          }
        } catch {
          // It is unknown whether requests in flight were applied.
          isDead = true;
        }
      }
    };
    await Promise.all(Array.from({ length: 6 }, write));
    await api.start();
    const listed = new Map<string, string>();
    for (const { id, name } of await readAll<{ id: string; name: string }>(
      `/projects/?org_id=${owner.org_id}`,
    ))
      listed.set(id, name);
    for (const [id, name] of projects) expect(listed.get(id)).toBe(name);
    const shown = await readAll<{ id: string; revoked: boolean }>(`/api-keys/?org_id=${owner.org_id}`);
    const byId = new Map(shown.map((key) => [key.id, key]));
    for (const id of keys) expect(byId.has(id)).toBe(true);
    for (const id of revoked) expect(byId.get(id)?.revoked).toBe(true);
    const log = await api.call(owner.token, 'GET', `/organizations/${owner.org_id}/audit-log?limit=1`);
    // The log has at least an entry for each change that was acknowledged.
    expect(Number(log.headers.get('x-total-count'))).toBeGreaterThanOrEqual(
      projects.size + keys.size + revoked.size,
    );
  }
}, 600_000);
