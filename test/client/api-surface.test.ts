/**
 * What agents import changes knowingly: docs/client-api.md shows it. `npx vitest run test/client/api-surface.test.ts -u` accepts
 * a change.
 */
import { expect, it } from 'vitest';
import { describeSurface } from './api-surface.ts';

const HEAD = `# What agents import

Made by \`test/client/api-surface.ts\` from what tsc emits, and held by a test. What the operations of \`api\` take and give is in
\`/openapi.json\` of the service.

`;

it('is the surface that was accepted', async () => {
  await expect(HEAD + describeSurface()).toMatchFileSnapshot('../../docs/client-api.md');
});
