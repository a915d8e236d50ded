/**
 * The default model as an ONNX graph: token ids to pieces, pieces to weighted buckets, buckets to a sketch, the sketch
 * to a vector. Development only.
 */
import { BASE, BUCKETS, INNER_ID, KIND_STRIDE, MULTIPLIERS, PRIMES, SKETCH, START_ID } from './features.ts';
import { OnnxGraph } from './onnx-graph.ts';

/** Weights that the corpus provides. */
export interface NgramWeights {
  /** For each bucket: weight × sign, in units of `bucket_scale`. */
  buckets: Int8Array;
  bucket_scale: number;
  /** For each word bucket: the weight of the word's pieces, in hundredths. */
  words: Uint8Array;
  /** [SKETCH, axes]: directions in which texts differ most, in units of `axis_scale`. */
  axes: Int8Array;
  axis_scale: number;
  axis_count: number;
  /** Number of dimensions into which the remainder is folded; SKETCH is a multiple of it. */
  fold: number;
}

/** Short names for the graph's operations. */
function makeOperations(g: OnnxGraph) {
  const add = (...xs: string[]) => xs.reduce((a, b) => g.node('Add', [a, b]));
  const mul = (...xs: string[]) => xs.reduce((a, b) => g.node('Mul', [a, b]));
  const int = (value: number) => g.int(value);
  const not = (x: string) => g.node('Sub', [int(1), x]);
  const toInt = (x: string) => g.node('Cast', [x], { to: 7 });
  const toFloat = (x: string) => g.node('Cast', [x], { to: 1 });
  const mod = (x: string, m: number) => g.node('Mod', [x, int(m)]);
  const mix = (x: string) =>
    mod(mul(mod(mul(x, int(MULTIPLIERS[0])), PRIMES[0]), int(MULTIPLIERS[1])), PRIMES[1]);
  const flat = (x: string) => g.node('Reshape', [x, g.ints(-1)]);
  return { add, mul, int, not, toInt, toFloat, mod, mix, flat };
}

type Operations = ReturnType<typeof makeOperations>;

/** Adds the nodes that find the pieces of each text: the bucket and the weight of each piece. */
function findPieces(g: OnnxGraph, o: Operations, weights: NgramWeights): { bucket: string; present: string } {
  const { add, mul, int, not, toInt, toFloat, mod, mix } = o;
  const ids = g.input('input_ids', 'int64', ['batch', 'tokens']);
  const mask = g.input('attention_mask', 'int64', ['batch', 'tokens']);
  // Two extra columns, so that every token has two successors.
  const padded = g.node('Pad', [mul(ids, mask), g.ints(0, 0, 0, 2)]);
  const isToken = toInt(g.node('GreaterOrEqual', [padded, int(START_ID)]));
  const isInner = toInt(g.node('GreaterOrEqual', [padded, int(INNER_ID)]));
  const byte = mul(add(g.node('Mod', [add(padded, int(256 - START_ID)), int(256)]), int(1)), isToken);
  const after = (x: string, n: number) =>
    g.node('Slice', [x, g.ints(n), g.ints(n === 2 ? 2 ** 31 : n - 2), g.ints(1)]);
  const [b0, b1, b2] = [after(byte, 0), after(byte, 1), after(byte, 2)];
  const [inner1, inner2] = [after(isInner, 1), after(isInner, 2)];
  const here = after(isToken, 0);
  const starts = mul(here, not(after(isInner, 0)));
  const ends = mul(here, not(inner1));
  const followed = mul(here, inner1);

  // The hash of each whole word: a sum over the characters, gathered by the number of the word.
  const two = add(b0, mul(b1, int(BASE), inner1));
  const letterHash = mul(mix(add(two, mul(starts, int(BASE * BASE)))), here);
  const ordinal = g.node('CumSum', [starts, int(1)]);
  const wordOf = g.node('Max', [g.node('Sub', [ordinal, int(1)]), int(0)]);
  const nothing = mul(ids, int(0));
  const sums = g.node('ScatterElements', [nothing, wordOf, letterHash], { axis: 1, reduction: 'add' });
  const wordHash = mod(g.node('GatherElements', [sums, wordOf], { axis: 1 }), PRIMES[1]);

  const three = add(two, mul(b2, int(BASE * BASE)));
  const kinds: [value: string, present: string][] = [
    [b0, starts],
    [b0, ends],
    [two, followed],
    [two, mul(starts, followed)],
    [two, mul(followed, not(inner2))],
    [three, mul(followed, inner2)],
    [wordHash, starts],
  ];
  const keys = kinds.map(([value], kind) => add(value, int(kind * KIND_STRIDE)));
  const bucket = mod(mix(g.node('Concat', keys, { axis: 1 })), BUCKETS);

  const wordBucket = mod(mix(add(wordHash, int(6 * KIND_STRIDE))), BUCKETS);
  const wordTable = g.constant(weights.words, [BUCKETS]);
  const wordWeight = mul(toFloat(g.node('Gather', [wordTable, wordBucket])), g.float(0.01));
  const presences = kinds.map(([, present]) => mul(toFloat(present), wordWeight));
  const present = g.node('Concat', presences, { axis: 1 });
  return { bucket, present };
}

/** Adds the nodes that sum the weighted pieces of each text in the text's sketch. */
function addPieces(g: OnnxGraph, o: Operations, weights: NgramWeights, bucket: string, present: string) {
  const { add, mul, int, toFloat, mod, flat } = o;
  // All texts are looked up as one concatenated list.
  const shape = g.node('Shape', [bucket]);
  const batch = g.node('Slice', [shape, g.ints(0), g.ints(1), g.ints(0)]);
  const flatBucket = flat(bucket);
  const lookUp = (table: string) =>
    g.node('Reshape', [g.node('GatherElements', [table, flatBucket], { axis: 0 }), shape]);

  // Count each piece per text; each occurrence then adds an equal share of the piece's weight. The count is stored at
  // the piece's last position among all texts, so only that many cells are cleared per text instead of one per bucket.
  const total = g.node('Size', [bucket]);
  const toInt32 = (x: string) => g.node('Cast', [x], { to: 6 });
  const ranks = g.node('Range', [toInt32(int(0)), toInt32(total), toInt32(int(1))]);
  const nowhere = g.node('Expand', [toInt32(int(0)), g.ints(BUCKETS)]);
  const last = lookUp(g.node('ScatterElements', [nowhere, flatBucket, ranks], { axis: 0 }));
  const zeros = (width: string) =>
    g.node('Expand', [g.float(0), g.node('Concat', [batch, width], { axis: 0 })]);
  const width = g.node('Reshape', [total, g.ints(1)]);
  const counts = g.node('ScatterElements', [zeros(width), last, present], { axis: 1, reduction: 'add' });
  const count = g.node('GatherElements', [counts, last], { axis: 1 });
  const damped = add(g.node('Log', [g.node('Max', [count, g.float(1)])]), g.node('Min', [count, g.float(1)]));
  const share = g.node('Div', [mul(damped, present), g.node('Max', [count, g.float(1e-6)])]);
  const bucketTable = g.constant(weights.buckets, [BUCKETS]);
  const weight = mul(toFloat(lookUp(bucketTable)), g.float(weights.bucket_scale));
  const place = mod(bucket, SKETCH);
  const sketch = g.node('ScatterElements', [zeros(g.ints(SKETCH)), place, mul(share, weight)], {
    axis: 1,
    reduction: 'add',
  });
  return { sketch, place, batch };
}

/** Adds the nodes that project the sketch to the model's dimensions. */
function projectSketch(
  g: OnnxGraph,
  o: Operations,
  weights: NgramWeights,
  { sketch, place, batch, present }: Record<'sketch' | 'place' | 'batch' | 'present', string>,
): void {
  const { mul, toFloat, flat } = o;
  // Project exactly along the axes, and fold the remainder so that no information is lost completely. A few texts fill
  // a small part of the sketch, so only the axes of that part are read: [rows of the texts, places] by [places, axes].
  // The first place is always included, because an empty product is not allowed.
  const first = g.constant(
    Float32Array.from({ length: SKETCH }, (_, at) => (at === 0 ? 1 : 0)),
    [SKETCH],
  );
  const marked = g.node('ScatterElements', [first, flat(place), flat(present)], {
    axis: 0,
    reduction: 'add',
  });
  const places = g.node('Squeeze', [g.node('NonZero', [marked]), g.ints(0)]);
  const axes = g.constant(weights.axes, [SKETCH, weights.axis_count]);
  const scale = g.float(weights.axis_scale);
  const along = mul(
    g.node('MatMul', [
      g.node('Gather', [sketch, places], { axis: 1 }),
      toFloat(g.node('Gather', [axes, places])),
    ]),
    scale,
  );
  const foldRows = (x: string, rows: string) => {
    const shape = g.node('Concat', [rows, g.ints(SKETCH / weights.fold, weights.fold)], { axis: 0 });
    return g.node('ReduceSum', [g.node('Reshape', [x, shape]), g.ints(1)], { keepdims: 0 });
  };
  const wholeAxes = mul(toFloat(axes), scale);
  const foldedAxes = foldRows(g.node('Transpose', [wholeAxes], { perm: [1, 0] }), g.ints(weights.axis_count));
  const rest = g.node('Sub', [foldRows(sketch, batch), g.node('MatMul', [along, foldedAxes])]);
  const joined = g.node('Concat', [along, rest], { axis: 1 });
  const length = g.node('ReduceL2', [joined, g.ints(1)], { keepdims: 1 });
  g.node('Div', [joined, g.node('Max', [length, g.float(1e-9)])], {}, 'sentence_embedding');
}

/** Writes the graph. Returns the bytes of model.onnx. */
export function writeNgramGraph(weights: NgramWeights): Uint8Array {
  const g = new OnnxGraph();
  const o = makeOperations(g);
  const { bucket, present } = findPieces(g, o, weights);
  projectSketch(g, o, weights, { ...addPieces(g, o, weights, bucket, present), present });
  g.output('sentence_embedding', 'float', ['batch', weights.axis_count + weights.fold]);
  return g.encode('ngram_embedding');
}
