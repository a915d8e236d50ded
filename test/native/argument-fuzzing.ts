/**
 * Calls every function of one addon with arguments of any kind, in a separate process, which must survive it.
 * Arguments: the addon's file, a seed, the number of calls of each function, and the number of feature bytes. Prints
 * for each function how many calls returned and how many threw.
 */
import { createRequire } from 'node:module';
import { createPrng } from '../../src/std/prng.ts';

const [file = '', seed = '', calls = ''] = process.argv.slice(2);
const addon = createRequire(import.meta.url)(file) as Record<string, (...given: unknown[]) => unknown>;
const prng = createPrng(Number(seed));
const pick = <T>(from: readonly T[]): T => from[Math.floor(prng.float() * from.length)]!;

const KINDS = [
  Uint8Array,
  Int8Array,
  Int16Array,
  Uint16Array,
  Uint32Array,
  Float32Array,
  Float64Array,
] as const;
const NUMBERS = [0, 1, 2, 3, 7, 16, 31, 32, 64, 1_000, -1, -0, 0.5, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53];
const WILD_NUMBERS = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e308, -(2 ** 40)];

function makeArray(kind: (typeof KINDS)[number] = pick(KINDS), length = pick([0, 1, 3, 16, 100, 2_000])) {
  const bytes = length * kind.BYTES_PER_ELEMENT;
  const isShared = prng.float() < 0.1;
  const memory = isShared
    ? new SharedArrayBuffer(bytes + 8)
    : new ArrayBuffer(bytes + 8, { maxByteLength: bytes + 8 });
  const array = new kind(memory as ArrayBuffer, pick([0, 8]), length);
  const most = pick([2, 256, 2 ** 32]);
  for (let at = 0; at < length; at++)
    array[at] = Math.floor(prng.float() * most) - (prng.float() < 0.05 ? Number.NaN : 0);
  if (memory instanceof ArrayBuffer) {
    const change = prng.float();
    if (change < 0.05) structuredClone(memory, { transfer: [memory] });
    else if (change < 0.1) memory.resize(Math.floor(bytes / 2));
  }
  return array;
}

const GRAPHS = addon.createGraph === undefined ? [] : [8, 33].map((n) => addon.createGraph!(n, 64, 8, 16, 1));

const KEY = 'a catalog';
const CATALOG = addon.openCatalog?.(KEY);
const SHARED = CATALOG === undefined ? null : addon.shareIndex!(CATALOG, 'an index', 'a group', 8, 2);

/** Returns the shared index, usually after the beginning of a change, which most functions require. */
function changing(): unknown {
  if (prng.float() < 0.9) {
    try {
      addon.beginChange!(SHARED);
    } catch {
      // A change has begun already.
    }
  }
  return SHARED;
}

/** Returns the shared index during a change, after a vector was added. */
function holding(id: number): unknown {
  for (const prepare of [
    () => addon.makeVectorBlock!(changing(), 0, 4),
    () => addon.enterVector!(SHARED, id),
  ]) {
    try {
      prepare();
    } catch {
      // The index has the point already, or has no space.
    }
  }
  return SHARED;
}

/** Makes values. Kinds of values that some function accepts are more frequent than others. */
const makers: (() => unknown)[] = [
  () => makeArray(),
  () => makeArray(Uint8Array),
  () => makeArray(Uint8Array, 836),
  () => makeArray(Uint32Array, pick([16, 1_280, 1_400])),
  () => makeArray(Float32Array, pick([8, 33])),
  () => pick(NUMBERS),
  () => pick(NUMBERS),
  () => pick(WILD_NUMBERS),
  () => pick(['', 'one', '\0', 'sk-ant-api03-abcdefgh', 'some words, '.repeat(400), 'x'.repeat(10_000)]),
  () =>
    pick([
      undefined,
      null,
      true,
      1n,
      Symbol('one'),
      {},
      () => 1,
      new Date(0),
      new DataView(new ArrayBuffer(8)),
    ]),
  () =>
    pick([
      [],
      [makeArray(Float32Array)],
      [7],
      new Array(2 ** 32 - 1),
      Object.freeze([makeArray(Float32Array, 64)]),
    ]),
  () => pick(GRAPHS.length > 0 ? [...GRAPHS, CATALOG, SHARED] : [null]),
];

const lexicon = new Uint32Array(1 + 2 * 16);
lexicon[0] = 15;

/** Makes valid arguments for each function. Before a call, some of them are replaced by other values. */
const fitting: Record<string, () => unknown[]> = {
  findSuspects: () => [makeArray(Uint8Array, 100), 0, 100, new Float64Array(9)],
  findAnyNeedle: () => [makeArray(Uint8Array, 100), 0, 100, makeArray(Uint8Array)],
  findLongBase64: () => [makeArray(Uint8Array, 100), 0, 100, 16],
  findEscape: () => [makeArray(Uint8Array, 100), 0, 100],
  isPlain: () => [makeArray(Uint8Array, 2_000), makeArray(Uint8Array), 64],
  measureCommonPrefix: () => [makeArray(Uint8Array, 100), makeArray(Uint8Array, 100), 3, 2, 90],
  measureCommonSuffix: () => [makeArray(Uint8Array, 100), makeArray(Uint8Array, 100), 93, 92, 90],
  copyBytes: () => [makeArray(Uint8Array, 16), makeArray(Uint8Array, 100), 5],
  copyBytesAside: () => [makeArray(Uint8Array, 2_000), makeArray(Uint8Array, 4_000), 5],
  measureMisalignment: () => [makeArray(Uint8Array), 64],
  watchConnections: () => [],
  openPort: () => [pick([1, 65_535]), 'an answer', pick([0, 1])],
  watchSecureConnections: () => [],
  closePort: () => [pick([1, 65_535])],
  capConnections: () => [pick([0, 1_000]), pick([0, 10]), pick([0, 1])],
  resumeAccepting: () => [],
  takeHead: () => [],
  rawHead: () => [],
  rememberHead: () => [prng.below(300), Uint32Array.of(1, 2), prng.below(9)],
  countSlowUpload: () => [],
  countConnections: () => [new Float64Array(pick([0, 3, 5, 9]))],
  readDescriptorLimit: () => [],
  sendNow: () => [NO_DESCRIPTOR, 'a head', makeArray(Uint8Array, 100)],
  makeMemory: () => [pick([4_096, 1 << 20])],
  // Every array is shorter than a page. Otherwise shared memory could be mapped over V8's own memory.
  mapMemory: () => [NO_DESCRIPTOR, makeArray(Uint8Array, 2_000), pick([0, 1])],
  unmapMemory: () => [makeArray(Uint8Array, 2_000)],
  emptyMemory: () => [NO_DESCRIPTOR, 0, 4_096],
  trimMemory: () => [0],
  setWidestLevel: () => [pick([0, 1, 2, 3])],
  measureTexts: () => [
    'an input',
    'a thought',
    'an observation',
    prng.float() < 0.5
      ? lexicon
      : Uint32Array.from(lexicon, (_, at) => (at === 0 ? 15 : 1 + Math.floor(prng.float() * 9))),
    makeArray(Uint32Array, 1_400),
    new Uint8Array(MEASURED_BYTES),
    new Uint32Array(13),
  ],
  compareShort: () => [
    makeArray(Float32Array, 8),
    [makeArray(Int16Array, 80), makeArray(Int16Array, 20)],
    3,
    Uint32Array.of(0, 9, pick([1, 8, 10, 2 ** 32 - 1])),
    pick([0, 2, 3]),
    new Float64Array(3),
  ],
  comparePacked: () => [
    makeArray(Float32Array, 8),
    [makeArray(Uint8Array, 8 * 14), makeArray(Uint8Array, 2 * 14)],
    3,
    Uint32Array.of(0, 9, pick([1, 8, 10, 2 ** 32 - 1])),
    pick([0, 2, 3]),
    new Float64Array(3),
  ],
  createGraph: () => [8, 16, 8, 16, 1],
  addPoint: () => [GRAPHS[0], makeArray(Float32Array, 8), pick(NUMBERS)],
  markRemoved: () => [GRAPHS[0], pick(NUMBERS)],
  resizeGraph: () => [GRAPHS[0], 64 + Math.floor(prng.float() * 64)],
  countPoints: () => [GRAPHS[0]],
  capacityOf: () => [GRAPHS[0]],
  searchGraph: () => [GRAPHS[0], makeArray(Float32Array, 8), 5, 10, new Uint32Array(5), new Float32Array(5)],
  writeGraph: () => [GRAPHS[0], 'graph'],
  readGraph: () => [8, 'graph'],
  openCatalog: () => [pick(['another catalog', 'one more'])],
  closeCatalog: () => [addon.openCatalog!('a third catalog')],
  serveCatalog: () => [CATALOG, pick(['', 'vectors'])],
  shareIndex: () => [CATALOG, `index ${prng.below(1_000)}`, 'a group', 8, 2],
  beginChange: () => [SHARED],
  endChange: () => [changing()],
  makeVectorBlock: () => [changing(), prng.below(4), 4],
  dropBlock: () => [changing()],
  enterVector: () => [holding(0), prng.below(16)],
  leaveVector: () => [holding(1), 1],
  awaitVector: () => [holding(2), 2],
  linkVector: () => [changing(), prng.below(16)],
  unlinkVector: () => [changing()],
  takeGraph: () => [changing(), addon.createGraph!(8, 4, 8, 16, 1), new Uint32Array(0)],
  dropGraph: () => [changing()],
  describeVector: () => [changing(), prng.below(16), 'a name', 'a kind', 'a family'],
  measureShared: () => [SHARED],
  listShared: () => {
    addon.serveCatalog!(CATALOG, 'vectors');
    return [KEY, 'vectors', ['an index', 'no index'], pick(['', 'a group'])];
  },
  searchShared: () => {
    // An earlier call may have left the index in the middle of a change.
    try {
      addon.endChange!(SHARED);
    } catch {
      // No change had begun.
    }
    const vector = makeArray(Float32Array, 8);
    const kind = pick([null, 'a kind']);
    const room = [new Float64Array(5), new Uint8Array(5)];
    const looks = [Uint32Array.of(4, 40), Float64Array.of(0.1)];
    return [
      KEY,
      'vectors',
      'an index',
      vector,
      vector,
      5,
      ...looks,
      8,
      0.1,
      0.3,
      100,
      kind,
      'a family',
      ...room,
    ];
  },
};
/** No file has this descriptor. `sendNow` gets it instead of the descriptors of standard input, output and errors. */
const NO_DESCRIPTOR = 1_000;
const PRINTING = new Set<unknown>([0, 1, 2]);

/** The number of feature bytes for which the addon throws no error. */
const MEASURED_BYTES = Number(process.argv[5]);

const counts: Record<string, [returned: number, threw: number]> = {};
for (const name of Object.keys(addon)) {
  const count: [number, number] = [0, 0];
  counts[name] = count;
  for (let call = 0; call < Number(calls); call++) {
    const given = fitting[name]!();
    for (let n = pick([0, 1, 1, 1, 2, given.length]); n > 0; n--)
      given[Math.floor(prng.float() * given.length)] = pick(makers)();
    if (prng.float() < 0.05) given.length = Math.floor(prng.float() * given.length);
    if (name === 'sendNow' && PRINTING.has(given[0])) given[0] = NO_DESCRIPTOR;
    try {
      // Waits for the result, because a graph must not grow while another thread reads it.
      const result = addon[name]!(...given);
      if (result instanceof Promise) await result;
      count[0]++;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      count[1]++;
    }
  }
}
console.log(JSON.stringify(counts));
