/**
 * `npm run fuzz`: compiles the fuzzers of this folder (libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer)
 * and runs each in turn, starting from its corpus, for `--seconds` in total (default: 60). After a finding it exits
 * with 1, and the input is in native/build/fuzz; add it to the corpus after you have fixed the code. `--only NAME` runs
 * one fuzzer; `--keep` adds inputs that reached new code to the corpus. Own process; without a clang with libFuzzer it
 * says so and exits with 0.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findFirst, listAddons, listArguments } from '../../../native/compile.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const build = join(here, '..', '..', '..', 'native', 'build', 'fuzz');

const WAYS = [
  '-O1',
  '-g',
  '-fno-omit-frame-pointer',
  '-fsanitize=fuzzer,address,undefined,float-cast-overflow',
  '-fno-sanitize-recover=all',
  '-D_GLIBCXX_ASSERTIONS',
];
/** Maximum length of an input. Longer inputs do not find more in the same time. */
const INPUT_BYTES = 4_096;
/** An input is a finding if it takes longer than INPUT_SECONDS, or more memory than MEMORY_MB. */
const INPUT_SECONDS = 10;
const MEMORY_MB = 1_024;
const ERROR_CHARACTERS = 20_000;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    only: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

function compileFuzzer(compiler, name) {
  const addon = listAddons().find((one) => one.name === name);
  if (addon === undefined) return `${name}: the addon is not compiled here`;
  const source = join(here, `${name}.cc`);
  // Options for a library, although this is a program: the included code names Node's functions but does not call them.
  const given = listArguments({ ...addon, sources: [source] }, WAYS).filter((flag) => flag !== '-shared');
  const { status, stderr } = spawnSync(compiler, [...given, '-o', join(build, name)], { encoding: 'utf8' });
  return status === 0 ? null : `${name}: ${stderr}`;
}

function fuzz(name, seconds) {
  const corpus = join(here, 'corpus', name);
  const found = mkdtempSync(join(build, `${name}-`));
  mkdirSync(corpus, { recursive: true });
  try {
    const { status, stderr } = spawnSync(
      join(build, name),
      [
        `-max_total_time=${seconds}`,
        `-max_len=${INPUT_BYTES}`,
        `-timeout=${INPUT_SECONDS}`,
        `-rss_limit_mb=${MEMORY_MB}`,
        `-artifact_prefix=${join(build, name)}-`,
        '-verbosity=0',
        '-print_final_stats=1',
        found,
        corpus,
      ],
      { encoding: 'utf8', maxBuffer: Number.POSITIVE_INFINITY },
    );
    const [, runs = '0'] = /number_of_executed_units: (\d+)/.exec(stderr) ?? [];
    console.log(`fuzz: ${name}: ${runs} inputs in ${seconds} s`);
    // The fuzzer's output is shown only after a finding.
    if (status !== 0) console.error(stderr.slice(-ERROR_CHARACTERS));
    // Compares inputs by the code that they reach, not by how often they reach it. Otherwise hundreds of inputs would
    // be kept.
    const merge = ['-merge=1', '-use_counters=0', '-verbosity=0', corpus, found];
    if (status === 0 && values.keep) spawnSync(join(build, name), merge, { stdio: 'ignore' });
    return status === 0;
  } finally {
    rmSync(found, { recursive: true, force: true });
  }
}

function run() {
  const compiler = findFirst(['clang++']);
  const names = readdirSync(here)
    .filter((file) => file.endsWith('.cc'))
    .map((file) => file.slice(0, -'.cc'.length))
    .filter((name) => values.only === undefined || name === values.only);
  mkdirSync(build, { recursive: true });
  const probe = ['-fsanitize=fuzzer,address', '-x', 'c++', '-', '-o', join(build, 'probe')];
  const input = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }';
  if (compiler === null || spawnSync(compiler.compiler, probe, { input }).status !== 0) {
    console.log('fuzz: skipped, there is no clang++ with libFuzzer here');
    return 0;
  }
  for (const name of names) {
    const failure = compileFuzzer(compiler.compiler, name);
    if (failure !== null) {
      console.error(`fuzz: ${failure}`);
      return 1;
    }
  }
  const seconds = Math.max(1, Math.floor(Number(values.seconds) / names.length));
  for (const name of names) {
    if (!fuzz(name, seconds)) {
      console.error(`fuzz: ${name}: the input that did it is in ${build}`);
      return 1;
    }
  }
  return 0;
}

process.exitCode = run();
