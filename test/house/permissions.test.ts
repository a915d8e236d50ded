/** docs/permissions.md, the table in the code and the declared routes say the same. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isAllowed, PERMISSIONS, ROUTE_PERMISSIONS } from '../../src/domain/permissions.ts';
import { ROLES } from '../../src/domain/role.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const page = readFileSync(new URL('../../docs/permissions.md', import.meta.url), 'utf8');

it('every dashboard route stands in the table, and nothing else', async () => {
  const declared = (await loadDeclaredEndpoints()).filter(({ auth }) => auth === 'user').map(({ id }) => id);
  expect(Object.keys(ROUTE_PERMISSIONS).sort()).toEqual(declared.sort());
});

it('every permission is asked for somewhere', () => {
  const asked = new Set<string>(Object.values(ROUTE_PERMISSIONS));
  // Asked for by whom a request is about, not by its route.
  expect(Object.keys(PERMISSIONS).filter((one) => !asked.has(one))).toEqual(['owners.change']);
});

it('the page shows the table', async () => {
  const endpoints = await loadDeclaredEndpoints();
  const rows = Object.entries(ROUTE_PERMISSIONS).map(([id, permission]) => {
    const { method, path, described_path } = endpoints.find((one) => one.id === id)!;
    const marks = ROLES.map((role) =>
      permission === 'signed in' || isAllowed(role, permission) ? 'yes' : '–',
    );
    return `| ${[`${method} ${described_path ?? path}`, permission, ...marks].join(' | ')} |`;
  });
  const shown = page.split('\n').filter((line) => /^\| (GET|POST|PATCH|DELETE) /.test(line));
  expect(shown).toEqual(rows);
  expect(page).toContain(`| Route | Permission | ${ROLES.join(' | ')} |`);
});
