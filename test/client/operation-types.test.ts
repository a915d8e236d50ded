/** src/client/operation-types.ts matches the contract: `node tools/client-types.ts`, formatted, changes nothing. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { CLIENT_TYPES_FILE, writeClientTypes } from '../../tools/client-types.ts';

const biome = fileURLToPath(new URL('bin/biome', import.meta.resolve('@biomejs/biome/package.json')));

it('the client’s operation types are made from the contract', () => {
  const argv = [biome, 'format', `--stdin-file-path=${CLIENT_TYPES_FILE}`];
  const formatted = execFileSync(process.execPath, argv, { input: writeClientTypes(), encoding: 'utf8' });
  expect(readFileSync(CLIENT_TYPES_FILE, 'utf8'), 'node tools/client-types.ts, then npm run format').toBe(
    formatted,
  );
});
