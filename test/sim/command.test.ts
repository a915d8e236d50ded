/** `npm run sim`, as developers call it. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('the simulator runs from the command line', () => {
  const run = fileURLToPath(new URL('./run.ts', import.meta.url));
  const output = execFileSync(process.execPath, [run, '--seed', '3', '--steps', '50'], { encoding: 'utf8' });
  expect(output).toMatch(/^seed 3: 1 boxes, \d+ asks, .* trace \d+ [0-9a-f]{16}\n$/);
});
