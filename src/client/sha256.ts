/**
 * SHA-256 (FIPS 180-4) without a library, because platforms without Node's modules have only an asynchronous
 * implementation. Pure; any thread.
 */

/**
 * The first 32 bits of fractional parts: of the square roots of the first 8 primes, and of the cube roots of
 * the first 64.
 */
const [ROOTS, CUBE_ROOTS] = makeConstants();

function makeConstants(): [number[], number[]] {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  const fraction = (root: number) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  return [
    primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime))),
    primes.map((prime) => fraction(Math.cbrt(prime))),
  ];
}

/**
 * Computes SHA-256 over the text in UTF-8.
 * @returns the first 32 bits of the digest, as an unsigned number
 */
export function startOfSha256(text: string): number {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor((bytes.length * 8) / 2 ** 32));
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0);
  const state = [...ROOTS];
  for (let at = 0; at < padded.length; at += 64) compress(state, view, at);
  return state[0]! >>> 0;
}

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits));

function compress(state: number[], view: DataView, at: number): void {
  const w = new Int32Array(64);
  for (let t = 0; t < 16; t += 1) w[t] = view.getInt32(at + 4 * t);
  for (let t = 16; t < 64; t += 1) {
    const [x, y] = [w[t - 15]!, w[t - 2]!];
    const small = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
    w[t] = (w[t - 16]! + small + w[t - 7]! + (rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10))) | 0;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let t = 0; t < 64; t += 1) {
    const sum = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const first = (h + sum + ((e & f) ^ (~e & g)) + CUBE_ROOTS[t]! + w[t]!) | 0;
    const second = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i]! + word) | 0;
}
