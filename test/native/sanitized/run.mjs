/**
 * `npm run test:sanitized`: compiles every addon of `native/compile.mjs` with AddressSanitizer and
 * UndefinedBehaviorSanitizer, into a separate folder, and runs the tests that use them. Before that it runs
 * graph-race.cc and shared-race.cc under ThreadSanitizer. With test files as arguments it runs only these files, and
 * not the races. Own process; exits with 1 after a finding. If the compiler has no sanitizers, it says so and exits
 * with 0.
 *
 * Node itself has no sanitizers, so leaks are not checked here: memory that V8 keeps until its end looks like a leak.
 * The programs without Node (test/native/fuzz) check for leaks.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile, findFirst, listAddons } from '../../../native/compile.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..', '..');
const build = join(root, 'native', 'build', 'sanitized');

const TESTS = [
  'test/native/',
  'test/search/vector-index',
  'test/search/shared-index',
  'test/search/graph-folder',
  'test/storage/capture-',
];
/** Each finding ends the process. If the test continued, it would hide the finding. */
const WAYS = [
  '-O1',
  '-g',
  '-fno-omit-frame-pointer',
  '-fsanitize=address,undefined',
  '-fno-sanitize-recover=all',
];
const ASAN_OPTIONS = {
  detect_leaks: 0,
  // Tests allocate more memory than exists, which must fail as it does without sanitizers.
  allocator_may_return_null: 1,
  detect_stack_use_after_return: 1,
  strict_string_checks: 1,
};

/** The environment that a process needs to load a library with sanitizers; null if the compiler has no sanitizers. */
function findRuntime(compiler) {
  // The second library is listed because Node loads it later, and the first must find its functions.
  const libraries = ['libasan.so', 'libstdc++.so'].map((name) =>
    spawnSync(compiler, [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim(),
  );
  return libraries.every((file) => existsSync(file)) ? libraries.join(':') : null;
}

function toSanitized(addon) {
  return { ...addon, target: join(build, basename(addon.target)) };
}

/** Compiles an addon with the sanitizers. @returns {string | null} why it failed; null: it succeeded */
function compileAddon(addon, compiler) {
  const told = compile(addon, compiler, WAYS);
  return existsSync(addon.target) && !/ failed /.test(told ?? '') ? null : told;
}

function findsOverrun(compiler, env) {
  const addon = {
    name: 'overrun',
    sources: [join(here, 'overrun.cc')],
    target: join(build, 'overrun.node'),
    includes: [],
  };
  const failure = compileAddon(addon, compiler);
  if (failure !== null) throw new Error(failure);
  const { status, stderr } = spawnSync(process.execPath, ['-e', `require(${JSON.stringify(addon.target)})`], {
    env,
    encoding: 'utf8',
  });
  return status !== 0 && stderr.includes('heap-buffer-overflow');
}

/** Programs for ThreadSanitizer, and their subjects. */
const RACES = {
  'graph-race': 'a graph is written while points are removed',
  'shared-race': 'indexes are searched while they are changed',
};

/**
 * Compiles and runs a program under ThreadSanitizer.
 * @returns {string | null} what is wrong: a race, a deliberate race that was not reported, or an error of the compiler;
 *   null: nothing, or the program was skipped
 */
function findRace(compiler, name) {
  const graph = listAddons().find((addon) => addon.name === 'graph');
  const library = spawnSync(compiler.compiler, ['-print-file-name=libtsan.so'], { encoding: 'utf8' });
  if (graph === undefined || !existsSync(library.stdout.trim())) {
    console.log(`test:sanitized: ${name} skipped, there is no ThreadSanitizer (libtsan) or no hnswlib here`);
    return null;
  }
  const program = join(build, name);
  const includes = graph.includes.map((folder) => `-isystem${folder}`);
  const given = ['-std=c++17', '-O1', '-g', '-fsanitize=thread', ...includes, join(here, `${name}.cc`)];
  const compiled = spawnSync(compiler.compiler, [...given, '-o', program], { encoding: 'utf8' });
  if (compiled.status !== 0) return compiled.stderr;
  // hnswlib lets one thread take several locks in any order, which would be reported as a possible deadlock.
  const env = { ...process.env, TSAN_OPTIONS: 'detect_deadlocks=0:halt_on_error=1' };
  const races = (...argument) => spawnSync(program, argument, { env, encoding: 'utf8' });
  const careless = races('careless').stderr;
  if (careless.includes('unexpected memory mapping')) {
    console.log(`test:sanitized: ${name} skipped, ThreadSanitizer does not run on this kernel`);
    return null;
  }
  if (!careless.includes('data race'))
    return `${name}: ThreadSanitizer did not report the deliberate race, so its other results are worthless`;
  const { status, stderr } = races();
  if (status === 0) console.log(`test:sanitized: ${name}: ${RACES[name]}`);
  return status === 0 ? null : `${name}: ${stderr}`;
}

function run() {
  const compiler = process.platform === 'linux' ? findFirst(['g++']) : null;
  const runtime = compiler === null ? null : findRuntime(compiler.compiler);
  if (runtime === null) {
    console.log('test:sanitized: skipped, there is no g++ with AddressSanitizer (libasan) here');
    return 0;
  }
  for (const addon of listAddons().map(toSanitized)) {
    const failure = compileAddon(addon, compiler);
    if (failure !== null) {
      console.error(`test:sanitized: ${failure}`);
      return 1;
    }
  }
  const env = {
    ...process.env,
    LD_PRELOAD: runtime,
    ASAN_OPTIONS: Object.entries(ASAN_OPTIONS)
      .map((pair) => pair.join('='))
      .join(':'),
    UBSAN_OPTIONS: 'print_stacktrace=1',
    SANITIZED_ADDONS: build,
  };
  if (!findsOverrun(compiler, env)) {
    console.error(
      'test:sanitized: the sanitizer did not report the deliberate overrun, so its other results are worthless',
    );
    return 1;
  }
  const tests = process.argv.slice(2);
  for (const name of tests.length > 0 ? [] : Object.keys(RACES)) {
    const race = findRace(compiler, name);
    if (race === null) continue;
    console.error(`test:sanitized: ${race}`);
    return 1;
  }
  env.NODE_OPTIONS = `--require ${JSON.stringify(join(here, 'addons.cjs'))}`;
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const given = [
    vitest,
    'run',
    '--project',
    'unit',
    '--project',
    'shared',
    '--project',
    'process',
    '--project',
    'long-parts',
    ...(tests.length > 0 ? tests : TESTS),
  ];
  return spawnSync(process.execPath, given, { cwd: root, env, stdio: 'inherit' }).status ?? 1;
}

process.exitCode = run();
