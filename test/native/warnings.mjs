/**
 * `npm run check:native`: every addon of `native/compile.mjs` must compile without a warning, with each compiler that
 * this machine has. The programs that use the headers without Node (the fuzzers and the races) must compile too. For
 * developers: a user's install compiles without these flags, because a newer compiler may have new warnings. Own
 * process; exits with 1 if there is a warning.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { findFirst, listAddons, listArguments } from '../../native/compile.mjs';

const WARNINGS = ['-Wall', '-Wextra', '-Werror'];
const COMPILERS = ['g++', 'clang++'];

/** Lists the flags against false warnings of GCC. @returns {string[]} none for another compiler */
function listWrong(compiler, addon) {
  if (compiler !== 'g++') return [];
  // This warning is about types of wide instructions in the interface of a function. No other file uses these
  // functions.
  const wrong = ['-Wno-psabi'];
  // GCC's own headers initialise a variable with itself (gcc.gnu.org/PR105593). clang also checks these addons.
  if (addon.sources.some((file) => readFileSync(file, 'utf8').includes('avx512')))
    wrong.push('-Wno-uninitialized', '-Wno-maybe-uninitialized');
  return wrong;
}

/** The C++ sources in the folders of the tests. */
function listDrivers() {
  return ['fuzz', 'sanitized'].flatMap((folder) => {
    const path = join(import.meta.dirname, folder);
    return readdirSync(path)
      .filter((file) => file.endsWith('.cc'))
      .map((file) => ({ name: `${folder}/${file}`, source: join(path, file) }));
  });
}

/** Programs that use an addon's headers call only some of its functions. */
const DRIVER_WARNINGS = [
  ...WARNINGS,
  '-Wno-unused-function',
  '-Wno-unneeded-internal-declaration',
  // Only objects are compiled, so flags of the linker are unused.
  '-Wno-unused-command-line-argument',
];

const addons = listAddons();
const includes = [...new Set(addons.flatMap((addon) => addon.includes))];
const found = COMPILERS.map((name) => findFirst([name])).filter((one) => one !== null);
let failed = 0;
for (const { compiler, version } of found) {
  for (const addon of addons) {
    const ways = ['-O3', '-DNDEBUG', ...WARNINGS, ...listWrong(compiler, addon)];
    const { status, stderr } = spawnSync(compiler, [...listArguments(addon, ways), '-o', devNull], {
      encoding: 'utf8',
    });
    if (status === 0) continue;
    failed++;
    console.error(`${addon.name}: ${compiler} warns\n${stderr}`);
  }
  const drivers = addons.some(({ name }) => name === 'graph') ? listDrivers() : [];
  for (const { name, source } of drivers) {
    const given = listArguments({ sources: [source], includes }, [
      '-fsyntax-only',
      ...DRIVER_WARNINGS,
      '-Wno-psabi',
    ]);
    const { status, stderr } = spawnSync(compiler, given, { encoding: 'utf8' });
    if (status === 0) continue;
    failed++;
    console.error(`${name}: ${compiler} says\n${stderr}`);
  }
  console.log(`check:native: ${version}: ${addons.length} addons and ${drivers.length} drivers compiled`);
}
if (found.length === 0) console.log('check:native: skipped, no C++ compiler found');
process.exitCode = failed === 0 ? 0 : 1;
