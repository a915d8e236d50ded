/** docs/permissions.md shows the permission that the contract declares for each route. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isAllowed, PERMISSIONS } from '../../src/domain/permissions.ts';
import { ROLES } from '../../src/domain/role.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const page = readFileSync(new URL('../../docs/permissions.md', import.meta.url), 'utf8');

const routes = (await loadDeclaredEndpoints()).filter(({ auth }) => auth === 'user');

it('every permission is required by a route', () => {
  const required = new Set<string | undefined>(routes.map(({ permission }) => permission));
  // `owners.change` depends on the member that a request names, not on its route.
  expect(Object.keys(PERMISSIONS).filter((name) => !required.has(name))).toEqual(['owners.change']);
});

it('the page shows the permissions of the contract', () => {
  const rows = routes.map(({ method, path, described_path, permission }) => {
    const marks = ROLES.map((role) =>
      permission === 'signed in' || isAllowed(role, permission!) ? 'yes' : '–',
    );
    return `| ${[`${method} ${described_path ?? path}`, permission, ...marks].join(' | ')} |`;
  });
  const shown = page.split('\n').filter((line) => /^\| (GET|POST|PATCH|DELETE) /.test(line));
  expect(shown.toSorted()).toEqual(rows.toSorted());
  expect(page).toContain(`| Route | Permission | ${ROLES.join(' | ')} |`);
});
