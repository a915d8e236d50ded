/**
 * `npm run check:native`: every addon of `native/compile.mjs` must compile without a warning, with each compiler that this
 * machine has. For developers: a user's install compiles without, since a newer compiler may have new warnings. Own process;
 * ends with 1 when there is one.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { findFirst, listAddons, listArguments } from '../../native/compile.mjs';

const WARNINGS = ['-Wall', '-Wextra', '-Werror'];
const COMPILERS = ['g++', 'clang++'];

/** @returns {string[]} what GCC says for no reason that lies in the addon */
function listWrong(compiler, addon) {
  if (compiler !== 'g++') return [];
  // About functions for wide instructions whose type no other file sees.
  const wrong = ['-Wno-psabi'];
  // Its headers initialise a variable by itself (gcc.gnu.org/PR105593); clang looks at these addons as well.
  if (addon.sources.some((file) => readFileSync(file, 'utf8').includes('avx512')))
    wrong.push('-Wno-uninitialized', '-Wno-maybe-uninitialized');
  return wrong;
}

const found = COMPILERS.map((name) => findFirst([name])).filter((one) => one !== null);
let failed = 0;
for (const { compiler, version } of found) {
  for (const addon of listAddons()) {
    const ways = ['-O3', '-DNDEBUG', ...WARNINGS, ...listWrong(compiler, addon)];
    const { status, stderr } = spawnSync(compiler, [...listArguments(addon, ways), '-o', devNull], {
      encoding: 'utf8',
    });
    if (status === 0) continue;
    failed++;
    console.error(`${addon.name}: ${compiler} warns\n${stderr}`);
  }
  console.log(`check:native: ${version}: ${listAddons().length} addons looked at`);
}
if (found.length === 0) console.log('check:native: skipped, no C++ compiler found');
process.exitCode = failed === 0 ? 0 : 1;
