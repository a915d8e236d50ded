/**
 * Two boxes have mixed load on the same rows, and one of them is killed meanwhile. At the end, all acknowledged data is
 * on both boxes exactly once. Own processes.
 */
import { expect, it } from 'vitest';
import type { ControlPlaneChild, Person } from '../fixtures/control-plane.ts';
import { SharedBoxes } from './shared-boxes.ts';

const CLIENTS = 8;
const ROUNDS = 12;

interface Acknowledged {
  keys: string[];
  findings: string[];
  profiles: Set<string>;
}

/**
 * One client's work on a box. Requests that are refused because a box or the database is unreachable are not
 * acknowledged.
 */
async function work(
  box: ControlPlaneChild,
  ann: Person,
  key: string,
  name: string,
  done: Acknowledged,
): Promise<void> {
  const tell = async (status: number, note: () => void) => {
    expect([200, 201, 503]).toContain(status);
    if (status < 300) note();
  };
  for (let round = 0; round < ROUNDS; round++) {
    const made = await box.call(ann.token, 'POST', '/api-keys/', { name: `${name}.${round}` });
    await tell(made.status, () => done.keys.push(`${name}.${round}`));
    const content = `${name} saw ${round}`;
    const finding = { finding_type: 'architecture', content, file_paths: ['a.ts'] };
    const stored = await box.call(key, 'POST', '/v1/findings/code', finding);
    await tell(stored.status, () => done.findings.push(content));
    const profile = { name: `p${round}`, weights: {} };
    const put = await box.call(key, 'POST', '/v1/monitor/profiles', profile);
    await tell(put.status, () => done.profiles.add(profile.name));
    // All clients change this row.
    const renamed = await box.call(ann.token, 'PATCH', `/organizations/${ann.org_id}`, {
      name: `${name} ${round}`,
    });
    await tell(renamed.status, () => {});
  }
}

it('everything acknowledged under load is on both boxes once', async () => {
  await using boxes = await SharedBoxes.start();
  const [a, b] = await Promise.all([boxes.open(), boxes.open()]);
  const ann = await a.person('ann');
  const { raw_key: key } = (await a.call(ann.token, 'POST', '/api-keys/', { name: 'first' })).body;
  await expect.poll(async () => (await b.call(key, 'GET', '/v1/findings')).status).toBe(200);
  const done: Acknowledged = { keys: ['first'], findings: [], profiles: new Set() };
  await Promise.all(
    Array.from({ length: CLIENTS }, (_, at) => work(at % 2 === 0 ? a : b, ann, key, `c${at}`, done)),
  );
  expect(done.findings.length).toBeGreaterThan(CLIENTS * ROUNDS * 0.9);
  // One box is killed while it serves clients, and its clients stop.
  const dying = work(b, ann, key, 'late', done).catch(() => {});
  const other = work(a, ann, key, 'other', done);
  await b.kill();
  await Promise.all([dying, other]);
  await b.start();
  const read = async (box: ControlPlaneChild) => {
    const keys = (await box.call(ann.token, 'GET', `/api-keys/?org_id=${ann.org_id}&limit=1000`)).body;
    const findings = (await box.call(key, 'GET', '/v1/findings/code?limit=1000')).body.findings;
    const { profiles } = (await box.call(key, 'GET', '/v1/monitor/profiles?limit=100')).body;
    return {
      keys: keys.map(({ name }: { name: string }) => name).sort(),
      findings: findings.map(({ content }: { content: string }) => content).sort(),
      profiles: profiles.map(({ name }: { name: string }) => name).sort(),
    };
  };
  const seen = await read(b);
  await expect.poll(() => read(a)).toEqual(seen);
  for (const name of done.keys) expect(seen.keys.filter((found: string) => found === name)).toEqual([name]);
  for (const content of done.findings)
    expect(seen.findings.filter((found: string) => found === content)).toEqual([content]);
  for (const name of done.profiles)
    expect(seen.profiles.filter((found: string) => found === name)).toEqual([name]);
});
