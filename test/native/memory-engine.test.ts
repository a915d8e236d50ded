/** Memory that two processes see, with real processes. Test thread. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, ftruncateSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { memoryEngine } from '../../native/memory-engine.ts';

const PAGE = 4_096;
const BYTES = 16 * PAGE;
const MODULE = new URL('../../native/memory-engine.ts', import.meta.url).href;

// Without the addon, shared memory does not exist, and there is nothing to test.
const isNative = memoryEngine.makeMemory.toString().includes('native code');

interface Mapped {
  descriptor: number;
  /** The bytes of the memory, without the page in front. */
  bytes: Buffer;
}

function make(): Mapped {
  const descriptor = memoryEngine.makeMemory(BYTES);
  expect(descriptor).toBeGreaterThan(2);
  onTestFinished(() => closeSync(descriptor));
  return { descriptor, bytes: map(descriptor, 1) };
}

function map(descriptor: number, mayWrite: 0 | 1): Buffer {
  const buffer = new SharedArrayBuffer(BYTES + PAGE);
  const from = memoryEngine.mapMemory(descriptor, new Uint8Array(buffer), mayWrite);
  expect(from).toBeGreaterThanOrEqual(0);
  return Buffer.from(buffer, from, BYTES);
}

/**
 * Returns the arguments of a Node process that inherits the memory as descriptor 3, maps it as `bytes`, and runs
 * `body`.
 */
function script(body: string, mayWrite: 0 | 1): string[] {
  const source = `const { memoryEngine } = await import(${JSON.stringify(MODULE)});
    const buffer = new SharedArrayBuffer(${BYTES + PAGE});
    const from = memoryEngine.mapMemory(3, new Uint8Array(buffer), ${mayWrite});
    const bytes = Buffer.from(buffer, from, ${BYTES});
    ${body}`;
  return ['--input-type=module', '-e', source];
}

describe.runIf(isNative)('memory shared by two processes', () => {
  it('is the same memory in each process, also for later writes', async () => {
    const { descriptor, bytes } = make();
    bytes.write('from the first', 5 * PAGE);
    const body = `console.log(bytes.toString('latin1', 5 * ${PAGE}, 5 * ${PAGE} + 14));
      bytes.write('from the other', 7);
      process.stdin.once('data', () => {
        console.log(bytes.toString('latin1', ${BYTES} - 5));
        process.exit();
      });`;
    const child = spawn(process.execPath, script(body, 1), {
      stdio: ['pipe', 'pipe', 'inherit', descriptor],
    });
    let told = '';
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      told += text;
    });
    while (!told.includes('\n')) await once(child.stdout!, 'data');
    await expect.poll(() => bytes.toString('latin1', 7, 21)).toBe('from the other');
    bytes.write('later', BYTES - 5);
    child.stdin!.write('\n');
    await once(child, 'close');
    expect(told).toBe('from the first\nlater\n');
  });

  it('ends only the process that writes to read-only memory', () => {
    const { descriptor, bytes } = make();
    bytes.fill(7);
    const stdio: ('pipe' | number)[] = ['pipe', 'pipe', 'pipe', descriptor];
    const reader = spawnSync(process.execPath, script('console.log(bytes[9])', 0), { stdio });
    expect(`${reader.stdout}${reader.stderr}`).toBe('7\n');
    const writer = spawnSync(process.execPath, script('bytes[9] = 1;', 0), { stdio });
    expect(writer.signal).toBe('SIGSEGV');
    expect(bytes[9]).toBe(7);
  });

  it('is visible to all threads through one buffer', async () => {
    const { bytes } = make();
    const worker = new Worker(
      `require('node:worker_threads').parentPort.once('message', (bytes) => {
         bytes[3] = 42;
         require('node:worker_threads').parentPort.postMessage('done');
       });`,
      { eval: true },
    );
    worker.postMessage(bytes);
    await once(worker, 'message');
    expect(bytes[3]).toBe(42);
    await worker.terminate();
  });

  it('returns pages to the system, which then contain zeros', () => {
    const { descriptor, bytes } = make();
    bytes.fill(9);
    expect(memoryEngine.emptyMemory(descriptor, PAGE, 2 * PAGE)).toBe(0);
    expect([bytes[PAGE - 1], bytes[PAGE], bytes[3 * PAGE - 1], bytes[3 * PAGE]]).toEqual([9, 0, 0, 9]);
  });

  it('cannot be truncated by any process, which would end its readers', () => {
    const { descriptor, bytes } = make();
    expect(() => ftruncateSync(descriptor, PAGE)).toThrow('EPERM');
    expect(() => ftruncateSync(descriptor, 2 * BYTES)).toThrow('EPERM');
    expect(bytes[BYTES - 1]).toBe(0);
  });

  it('leaves a buffer with private pages', () => {
    const { descriptor } = make();
    const buffer = new SharedArrayBuffer(BYTES + PAGE);
    const whole = new Uint8Array(buffer);
    const from = memoryEngine.mapMemory(descriptor, whole, 1);
    whole[from] = 5;
    expect(memoryEngine.unmapMemory(whole)).toBe(0);
    expect(whole[from]).toBe(0);
    whole[from] = 6;
    expect(map(descriptor, 0)[0]).toBe(5);
  });

  it('refuses invalid lengths, descriptors and memory', () => {
    for (const wrong of [0, -PAGE, 1, PAGE + 1, Number.NaN, Number.POSITIVE_INFINITY])
      expect(() => memoryEngine.makeMemory(wrong), String(wrong)).toThrow(RangeError);
    const buffer = new Uint8Array(new SharedArrayBuffer(2 * PAGE));
    expect(() => memoryEngine.mapMemory(-1, buffer, 1)).toThrow(RangeError);
    expect(() => memoryEngine.mapMemory(2 ** 31, buffer, 1)).toThrow(RangeError);
    expect(getSystemErrorName(memoryEngine.mapMemory(999_999, buffer, 1))).toBe('EBADF');
    expect(getSystemErrorName(memoryEngine.mapMemory(0, buffer.subarray(0, 100), 1))).toBe('EINVAL');
    expect(getSystemErrorName(memoryEngine.emptyMemory(999_999, 0, PAGE))).toBe('EBADF');
  });
});

/**
 * A process that frees most of its memory, with kept pieces in between. It prints whether pages were returned, how many
 * pieces were kept, and whether its memory fell by 80 MB.
 */
const TRIMMING = `const { memoryEngine } = await import(${JSON.stringify(MODULE)});
  const { readFileSync } = await import('node:fs');
  const readAnon = () => Number(/RssAnon:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'latin1'))[1]) >> 10;
  let all = Array.from({ length: 4_000 }, () => Buffer.allocUnsafeSlow(32 << 10).fill(1));
  const full = readAnon();
  all = all.filter((_, at) => at % 40 === 0);
  let returned = 0;
  for (let round = 0; round < 200 && readAnon() > full - 80; round++) {
    gc();
    returned |= memoryEngine.trimMemory(0);
    await new Promise(setImmediate);
  }
  console.log(returned, all.length, readAnon() <= full - 80);`;

// With musl, nothing is returned. AddressSanitizer, which is preloaded, keeps freed memory to find uses of it.
const isGlibc =
  'glibcVersionRuntime' in (process.report.getReport() as { header: object }).header &&
  process.env.ASAN_OPTIONS === undefined;

it.runIf(isNative && isGlibc)('pages between allocations are returned to the system', () => {
  const { stdout, stderr } = spawnSync(process.execPath, [
    '--expose-gc',
    '--input-type=module',
    '-e',
    TRIMMING,
  ]);
  expect(`${stdout}${stderr}`).toBe('1 100 true\n');
});
