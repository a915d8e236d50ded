/**
 * The interface that agents import changes only on purpose: docs/client-api.md shows it. `npx vitest run
 * test/client/api-surface.test.ts -u` accepts a change.
 */
import { expect, it } from 'vitest';
import { describeSurface } from './api-surface.ts';

const HEAD = `# What agents import

\`test/client/api-surface.ts\` makes this page from what tsc emits, and a test compares the two. The service's
\`/openapi.json\` describes what each operation of \`api\` takes and answers.

`;

it('the public interface of the packages equals docs/client-api.md', { tags: 'long' }, async () => {
  await expect(HEAD + describeSurface()).toMatchFileSnapshot('../../docs/client-api.md');
});
