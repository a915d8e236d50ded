/**
 * Replaces the addons by those that run.mjs compiled with sanitizers, in each process and thread of a test run:
 * `--require` reaches both. It is CommonJS because `--require` needs that.
 */
const { existsSync } = require('node:fs');
const { basename, dirname, join } = require('node:path');

const SANITIZED = process.env.SANITIZED_ADDONS;
const USUAL = dirname(SANITIZED);

const { dlopen } = process;
process.dlopen = (module, file, ...flags) => {
  const other = join(SANITIZED, basename(file));
  return dlopen.call(process, module, dirname(file) === USUAL && existsSync(other) ? other : file, ...flags);
};
